"""Reads a page of HTML for the tests of the reports: its elements, with their attributes and text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

ENDS_A_WORD = ("td", "th", "li", "dt", "dd", "div", "p", "summary", "span", "b", "h2", "h3")
VOID = ("meta", "col", "br", "hr", "img", "input", "link")


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())

    @property
    def classes(self) -> list[str]:
        return self.attributes.get("class", "").split()


class Page(HTMLParser):
    """Every element in its order; the text of an element holds that of the elements in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)
        if tag in ("li", "ul"):
            self.handle_data(" ")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag, f"</{tag}> closes nothing"
        if tag in ENDS_A_WORD:
            self.handle_data(" ")

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.texts.append(data)

    def all(self, tag: str, of_class: str = "") -> list[Element]:
        return [e for e in self.elements if e.tag == tag and (not of_class or of_class in e.classes)]

    def ids(self) -> list[str]:
        return [e.attributes["id"] for e in self.elements if "id" in e.attributes]

    def by_id(self, name: str) -> Element:
        (element,) = (e for e in self.elements if e.attributes.get("id") == name)
        return element


def numbers(text: str) -> list[int]:
    """Every whole number in a text, in its order."""
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)]


@dataclass(frozen=True)
class Verdict:
    """What the first line of a report says: whether all is well, by class and by sign alike, and its numbers."""

    good: bool
    numbers: list[int]


def verdict(page: Page) -> Verdict:
    """Of a page with one heading, which has one verdict in it."""
    (heading,) = page.all("h1")
    (mark,) = [e for e in page.all("span") if {"good", "bad"} & set(e.classes) and e.text == heading.text]
    good = "good" in mark.classes
    assert heading.text[0] == ("✓" if good else "✗")
    return Verdict(good, numbers(heading.text))


def outside(text: str) -> list[str]:
    """What a page would fetch or lead to beyond itself: addresses, elements and styles that load something."""
    page = Page(text)
    loads = [e.tag for e in page.elements if e.tag in ("link", "img", "iframe", "object", "embed", "base", "form")]
    addresses = [
        value
        for e in page.elements
        for name, value in e.attributes.items()
        if name in ("src", "srcset", "action", "data") or (name.endswith("href") and not value.startswith("#"))
    ]
    styles = [e.text for e in page.all("style") if "url(" in e.text or "@import" in e.text]
    return loads + addresses + styles + [part for part in ("http://", "https://") if part in text]
