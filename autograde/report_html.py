"""The same verdict as a card for notebooks. Words carry everything; colour only repeats it."""

from __future__ import annotations

import html
import re

from autograde.finding import Finding
from autograde.judge import Verdict
from autograde.report_text import heading, is_untouched, printable, printed_text

# Told apart by colour-blind readers, too, and words repeat them. No colour can be read as text on white and on black
# alike, so these are never the colour of text: they lie behind white text, or draw a line.
GOOD, BAD, IDLE = "#1a7f5a", "#b3441e", "#6a6a6a"


def escape(text: str) -> str:
    """Text, whoever wrote it, as HTML that shows just this text."""
    return html.escape(printable(text))


def verdict_html(verdict: Verdict) -> str:
    """An HTML card. Every text that may hold the learner's words is escaped."""
    edge = GOOD if verdict.passed else IDLE if is_untouched(verdict) else BAD
    parts = [f"<b>{escape(heading(verdict))}</b>"]
    if is_untouched(verdict):
        name = escape(verdict.exercise.name)
        parts.append(f"<div>Write <code>{name}</code> in the cell above, run that cell, then run this one again.</div>")
    else:
        parts.append(_stages(verdict))
        parts += [
            f"<div><b>Note:</b> {escape(note)}.</div>" for outcome in verdict.outcomes for note in outcome.notes[:1]
        ][:1]
        failure = verdict.failure
        if failure is not None and failure.finding is not None:
            parts.append(_failure(failure.stage.name, failure.finding))
            if verdict.diagnosis is not None:
                parts.append(_box(verdict.diagnosis.label.capitalize(), verdict.diagnosis.text, BAD))
            else:
                parts.append(_box("Why it is asked", failure.stage.why, IDLE))
        if not verdict.passed and verdict.printed:
            parts.append(f"<div>{printed_text(verdict.printed)}</div>")
    style = f"border-left:5px solid {edge};padding:.3em .8em;margin:.2em 0;line-height:1.5"
    return f'<div style="{style}">{"".join(parts)}</div>'


def _stages(verdict: Verdict) -> str:
    items = []
    for outcome in verdict.outcomes:
        word, sign, colour = (
            ("held", "&#10003;", GOOD)
            if outcome.held
            else ("failed", "&#10007;", BAD)
            if outcome.reached
            else ("not reached", "&#8211;", IDLE)
        )
        badge = f"background:{colour};color:#fff;border-radius:3px;padding:0 .4em"
        items.append(
            f'<span style="margin-right:1.4em;white-space:nowrap"><span style="{badge}">{sign} {word}</span> '
            f"{escape(outcome.stage.name)}</span>"
        )
    return f"<div>{' '.join(items)}</div>"  # a space, or the line would have no place to break


def _failure(name: str, finding: Finding) -> str:
    where = f", {escape(finding.where)}" if finding.where else ""
    rows = [f"<div><b>{escape(name)}</b>{where}: {escape(finding.fact)}</div>"]
    if finding.expected:
        rows.append(
            f"<div>expected <code>{escape(finding.expected)}</code>, got <code>{escape(finding.got)}</code></div>"
        )
    if len(finding.marks) > 1:
        rows.append(_strip(finding))
    return "".join(rows)


def _strip(finding: Finding) -> str:
    """A picture of the positions: which were right, from the first to the last."""
    cells, words = [], []
    for i, mark in enumerate(finding.marks):
        colour, sign, word = (GOOD, "&#10003;", "right") if mark else (BAD, "&#10007;", "wrong")
        box = f"display:inline-block;min-width:2.2em;text-align:center;border:1px solid {colour};margin-right:2px"
        title = f"{escape(finding.axis)} {finding.first + i}: {word}"
        words.append(title)
        cells.append(f'<span style="{box}" title="{title}">{finding.first + i} {sign}</span>')
    axis = escape(finding.axis)
    return f'<div role="img" aria-label="{"; ".join(words)}">{axis} {"".join(cells)}</div>'


def _box(title: str, text: str, colour: str) -> str:
    style = f"border:1px solid {colour};border-radius:3px;padding:.2em .6em;margin-top:.3em"
    shown = re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))  # as Markdown would: the text of hints is Markdown
    return f'<div style="{style}"><b>{title}:</b> {shown}</div>'
