"""The colours of the window and of a page: see ``visformer/ui/visual_language.md``."""

from dataclasses import dataclass

from visformer.pictures.picture import AttentionRole


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of one theme, as #rrggbb; text on ground is at least 4.5 : 1."""

    window: str
    base: str
    raised: str
    text: str
    faint: str
    off: str  # of what cannot be used now
    accent: str
    on_accent: str
    line: str


THEMES: dict[str, Colours] = {
    "light": Colours(
        window="#f4f5f7",
        base="#ffffff",
        raised="#e9ebef",
        text="#1a1d23",
        faint="#5a616d",
        off="#5a616d",
        accent="#0b62c4",
        on_accent="#ffffff",
        line="#c3c8d1",
    ),
    "dark": Colours(
        window="#1d2026",
        base="#14161a",
        raised="#2a2e36",
        text="#e8eaee",
        faint="#a3abb8",
        off="#a3abb8",
        accent="#5aa9ff",
        on_accent="#0b0d10",
        line="#434955",
    ),
    "contrast": Colours(
        window="#000000",
        base="#121212",
        raised="#262626",
        text="#ffffff",
        faint="#ffffff",
        off="#a0a0a0",
        accent="#ffd500",
        on_accent="#000000",
        line="#ffffff",
    ),
}
# One hue per role, on light and on dark grounds: reddish purple, vermilion and bluish
# green of Okabe and Ito (Color Universal Design, 2008), shifted to 4.5 : 1 as text.
HUES: dict[AttentionRole, tuple[str, str]] = {
    "query": ("#9c3377", "#e79ac6"),
    "key": ("#b04600", "#ff9d5c"),
    "value": ("#00704e", "#3fd3a5"),
}
# A token that was forced or fed, and the loss of one: on light and on dark grounds.
FED = ("#8a6200", "#f0c05a")
NAN_COLOUR = "#d81b7a"  # occurs in none of the maps
DARKEST = 0.18  # relative luminance below which a ground takes light text
# Anchors from low to high; lightness is monotonic, so that they work in grey too.
LIGHT = ("#ffffff", "#cfe9e6", "#7cc1cf", "#2f7fb8", "#1f3d8a", "#0b1240")
DARK = ("#0c0e12", "#1c2f63", "#1f6a94", "#2fa88f", "#a4d65e", "#fdf7b4")
# From minus to plus, 0 in the middle.
LIGHT_SIGNED = ("#7a3300", "#e08a2e", "#ffffff", "#5a8fd0", "#0b2f78")
DARK_SIGNED = ("#ffb875", "#a8561a", "#0c0e12", "#2f6fb8", "#a5d3ff")
