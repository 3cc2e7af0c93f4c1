"""Text from any source, in the JSON that a store keeps."""

from typing import Annotated

from pydantic import AfterValidator

from history.support.rendering import encodable

#: Text from any source, made encodable.
EncodableText = Annotated[str, AfterValidator(encodable)]
