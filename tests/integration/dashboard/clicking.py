"""A person at the desk clicks only what is on the page. The clicks are counted."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

from tests.fixtures.waiting import eventually
from tests.integration.dashboard.browser import Browser, text_of


@dataclass(slots=True)
class Form:
    """A form of a page: where it goes, its fields, and its buttons with their texts."""

    action: str
    method: str
    fields: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    buttons: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])


class _Page(HTMLParser):
    """The links and forms of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.forms: list[Form] = []
        self._text: list[str] | None = None
        self._given: dict[str, str] = {}
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        match tag:
            case "form":
                self.forms.append(Form(given.get("action", ""), given.get("method", "get")))
            case "input" if self.forms and "name" in given and given.get("type") != "checkbox":
                self.forms[-1].fields.append((given["name"], given.get("value", "")))
            case "a" | "button":
                self._text, self._given = [], given
            case _:
                pass

    def handle_data(self, data: str) -> None:
        if self._text is not None:
            self._text.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag not in {"a", "button"} or self._text is None:
            return
        text = " ".join("".join(self._text).split())
        self._text = None
        if tag == "a":
            self.links.append((text, self._given.get("href", "")))
        elif self.forms:
            named = self._given.get("name", ""), self._given.get("value", "")
            self.forms[-1].buttons.append((text, *named))


class Person:
    """Somebody with a browser. Typing into a field does not count as a click."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.clicks: list[str] = []
        self.place = "/"
        self.html = browser.page("/")

    @property
    def text(self) -> str:
        return " ".join(text_of(self.html).split())

    def follow(self, text: str, containing: str = "") -> None:
        """Click the first link with this text, and ``containing`` in its address."""
        self.clicks.append(text)
        places = [place for shown, place in _Page(self.html).links if shown == text and containing in place]
        assert places, (text, self.text[:500])
        self.open(places[0])

    def press(self, beginning: str, **typed: str) -> None:
        """Fill fields of a form, then click its button; the first button with this beginning is used."""
        self.clicks.append(beginning)
        form, button = next(
            (form, button)
            for form in _Page(self.html).forms
            for button in form.buttons
            if button[0].startswith(beginning)
        )
        fields = dict(form.fields) | typed | ({button[1]: button[2]} if button[1] else {})
        if form.method == "post":
            answer = self._browser.post(form.action, fields)
            assert answer.status_code == 303, text_of(answer.text)
            self.open(answer.headers["location"])
        else:
            self.open(f"{form.action}?{urlencode(fields)}")

    def open(self, place: str) -> None:
        self.place, self.html = place, self._browser.page(place)

    def wait_for(self, text: str) -> None:
        """Load the page again until it contains the text."""

        def says() -> bool:
            self.open(self.place)
            return text in self.text

        eventually(says)
