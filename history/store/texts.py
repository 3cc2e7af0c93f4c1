"""Text of anybody's, in what a store keeps as JSON."""

from typing import Annotated

from pydantic import AfterValidator

from history.support.rendering import encodable

#: Text of anybody's, made encodable.
EncodableText = Annotated[str, AfterValidator(encodable)]
