from cassette_lab.cassette.model import STOP_REASON_CATEGORIES
from cassette_lab.views.theme import CATEGORIES, INK, MUTED, PAPER, STYLE, category_of, fit, pad, percent_text, text_width


def test_shares_never_round_to_nothing_or_to_all() -> None:
    assert [percent_text(part, 1000) for part in (0, 1, 380, 999, 1000)] == ["0 %", "< 1 %", "38 %", "> 99 %", "100 %"]
    assert percent_text(0, 0) == "\N{EN DASH}"


def test_texts_are_measured_and_cut_in_columns() -> None:
    wide = "\u6f22\u5b57label"
    assert text_width(wide) == 9
    assert fit(wide, 9) == wide
    assert fit(wide, 6) == "\u6f22\u5b57l…"
    assert text_width(pad(wide, 12)) == text_width(pad(wide, 5)) + 7 == 12
    assert pad("7", 3, right=True) == "  7"
    assert text_width("e\u0301") == 1


def test_every_stop_reason_and_outcome_kind_has_a_look() -> None:
    assert {*STOP_REASON_CATEGORIES, "result-error", "start-error"} == set(CATEGORIES)
    assert category_of("result", "max-tokens").word == "limit"
    assert category_of("start-error", None).fill == "hollow"
    assert category_of("result", None).name == category_of("nonsense", None).name == "other"


def test_no_two_outcomes_differ_by_colour_alone() -> None:
    looks = [(category.word, category.fill, category.end) for category in CATEGORIES.values()]
    assert len(set(looks)) == len(looks)
    assert len({category.glyph for category in CATEGORIES.values()}) == len(CATEGORIES) - 1, (
        "both errors raised in a run share one"
    )


def test_text_is_readable_on_its_ground() -> None:
    for colour in (INK, MUTED):
        assert _contrast(colour, PAPER) >= 4.5


def test_a_page_can_replace_every_colour_of_text_and_ground() -> None:
    for name, colour in (("ink", INK), ("muted", MUTED), ("paper", PAPER)):
        assert f'[fill="{colour}"]{{fill:var(--clab-{name})}}' in STYLE
        assert f"--clab-{name}:var(--clab-page-{name},var(--jp-" in STYLE


def _contrast(first: str, second: str) -> float:
    def luminance(colour: str) -> float:
        parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)
