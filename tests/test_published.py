"""Figures that lessons quote from papers, held against the fact sheet: nothing in a lesson works them out."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
FACTS = {
    row["id"]: row["figure"]
    for name in "dfhk"
    for row in json.loads((ROOT / f"tests/data/facts_{name}.json").read_text(encoding="utf-8"))
}
LESSON = (ROOT / "solutions/04-torch-gqa-cache.py").read_text(encoding="utf-8")


def cells(who: str) -> list[str]:
    """The cells of the row of the published table that begins with this name."""
    [row] = [line for line in LESSON.splitlines() if line.startswith(f"# | {who}")]
    return [cell.strip() for cell in row.strip("# |").split("|")]


def test_what_shazeer_measured():
    fact = FACTS["F4.speed"]
    _, mha, gqa, mqa = cells("Shazeer 2019")
    assert mha == f"{fact['mha_us']} µs, {fact['mha_bleu']}"
    assert (gqa, mqa) == ("", f"{fact['mqa_us']} µs, {fact['mqa_bleu']}")


def test_what_ainslie_measured():
    fact = FACTS["F4.uptrained"]
    _, mha, gqa, mqa = cells("Ainslie et al. 2023")
    assert mha == f"{fact['mha']}, {fact['mha_s']} s"
    assert gqa == f"{fact['gqa8']}, {fact['gqa8_s']} s"
    assert mqa == f"{fact['mqa']}"


def test_what_deepseek_measured():
    fact = FACTS["F4.scratch"]
    assert cells("DeepSeek-AI 2024")[1:] == [str(fact["mha"]), str(fact["gqa"]), str(fact["mqa"])]


def test_the_share_of_further_training():
    assert f"about {FACTS['F3']['further_training']:.0%} of its original training steps" in LESSON


def test_what_kwon_measured():
    text = " ".join((ROOT / "solutions/06-paging.py").read_text(encoding="utf-8").replace("\n#", " ").split())
    held = FACTS["D14.kwon"]
    assert f"{held['lowest']} to {held['highest']}% of the memory reserved for caches held tokens" in text
    assert f"this never cost more than {FACTS['H4']['most']}% of the time that swapping" in text
    assert f"blocks of {FACTS['H2']['vllm_default_block_size']}, vLLM's default" in text


def test_the_answers_from_the_table_of_papers():
    text = " ".join((ROOT / "solutions/08-mla-and-sharing.py").read_text(encoding="utf-8").replace("\n#", " ").split())
    mla, uptrained, scratch = FACTS["F4.mla"], FACTS["F4.uptrained"], FACTS["F4.scratch"]
    assert f"(MMLU {mla['mmlu'][0]} against {mla['mmlu'][1]}, BBH {mla['bbh'][0]} against {mla['bbh'][1]})" in text
    assert f"C-Eval is {mla['small_c_eval'][0]} against {mla['small_c_eval'][1]}" in text
    lost = [f"{uptrained['mha'] - uptrained[name]:.1f}" for name in ("gqa8", "mqa")]
    assert f"{lost[0]} points with eight, {lost[1]} with one" in text
    lost = [f"{scratch['mha'] - scratch[name]:.1f}" for name in ("gqa", "mqa")]
    assert f"{lost[0]} for GQA, {lost[1]} for MQA" in text


def test_what_a_latent_saves():
    text = " ".join((ROOT / "solutions/08-mla-and-sharing.py").read_text(encoding="utf-8").replace("\n#", " ").split())
    fewer, mla = FACTS["D15.fewer"], FACTS["D15.mla"]
    assert f"The paper prints {fewer['percent']}%" in text and f"make it {fewer['percent']}%" in text
    assert f"save {fewer['at_16_bit']}%" in text
    assert f"{mla['mha_elements']:,} numbers" in text


def test_which_percentile_a_pool_is_planned_for():
    text = " ".join((ROOT / "solutions/12-a-server.py").read_text(encoding="utf-8").replace("\n#", " ").split())
    assert f"Plan for the {FACTS['K3']['percentile']}th percentile of what is live" in text
    assert "bound what a request may ask for by what the product needs" in text


def test_what_was_seen_with_a_larger_model():
    text = " ".join((ROOT / "solutions/10-a-real-model.py").read_text(encoding="utf-8").replace("\n#", " ").split())
    fact = FACTS["K1.published"]
    assert (
        f"{fact['same_tokens']} of 32 as well, and at most {fact['difference']} on logits that span {fact['span']}"
        in text
    )
