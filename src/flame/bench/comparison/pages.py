"""The pages of the comparison: an experiment's own, and the documentation's, both from the kept files alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flame.bench.comparison import panels
from flame.bench.comparison.experiments import EXPERIMENTS
from flame.bench.comparison.figures import bubble, plume_size
from flame.bench.comparison.methods import METHODS, Method, chosen_methods, plugged_in
from flame.bench.comparison.records import Records
from flame.bench.comparison.scales import Scale
from flame.bench.comparison.tables import method_table, order_of, order_words, rules_table
from flame.files import write_whole

__all__ = ["render_experiment", "write_page"]

_WITH_TABLE = ("main", "backbones", "components", "ablation")

Figures = dict[str, tuple[str, Callable[[], bytes | None]]]
"""File name to what it shows and how it is drawn."""


def render_experiment(experiment: str, records: Records) -> str:
    """Writes `<experiment>.md` and its figures beside the kept files, and gives the text."""
    text = f"# {EXPERIMENTS[experiment].title}\n\n{_about(records)}\n"
    text += _section(experiment, records, records.folder / "figures", "figures")
    write_whole(records.folder / f"{experiment}.md", text)
    return text


def write_page(out: Path, page: Path) -> str:
    """Writes the page of the documentation with everything there is, its figures in `images` beside it.

    Args:
        out: Folder with one folder a scale.
        page: The Markdown file.
    """
    text = _PAGE_HEAD
    for folder in sorted(out.iterdir()) if out.is_dir() else ():
        records, notes = Records(folder), folder / "notes.md"
        if not records.data() and not notes.is_file():
            continue
        text += f"\n## Scale `{folder.name}`\n{_about(records)}"
        if notes.is_file():
            text += f"\n{notes.read_text(encoding='utf-8').strip()}\n"
        for experiment, entry in EXPERIMENTS.items():
            where = f" ({entry.where})" if entry.where else ""
            text += f"\n### {entry.title}{where}\n"
            text += f"`flame bench {experiment} --scale {folder.name} --out FOLDER`\n\n"
            text += _section(experiment, records, page.parent / "images", "images", f"{folder.name}-")
    write_whole(page, text)
    return text


_PAGE_HEAD = """# Results
This page is written by `flame bench report` from the small files that every run leaves in `results/comparison`;
nothing in it is typed by hand but the notes. A row that has not been run says so.

Networks are judged as in the paper: probability above 0.5, then opened by a 3x3 cross. Classical filters are cut at
their canonical threshold and opened too. The two columns of best thresholds choose on the very tiles that are judged
and say what a method could reach if its threshold were right; the noise-aware filter has no canonical threshold and
only these. The paper's linear filters have the additive target, whose canonical thresholds belong to the radiance of
STARCOP. The paper's figures are for STARCOP: figures stand beside each other for their order, not for their size.
"""


def _about(records: Records) -> str:
    data = records.data()
    runs = next(iter(records.runs().values()), None)
    if not data or not runs:
        return "Nothing has been run yet.\n"
    scale = Scale(**runs[0]["scale"])
    tiles = f"Tiles: {data['source']}; {data['train']} for training and validation, {data['test']} for testing."
    return f"{tiles} Scale: {scale.words()}.\n"


def _methods(experiment: str, records: Records) -> list[Method]:
    """The experiment's methods in the paper's order, and what the user plugged in."""
    if EXPERIMENTS[experiment].methods:
        return [METHODS[key] for key in EXPERIMENTS[experiment].methods]
    keys = {method.key for method in chosen_methods(experiment)}
    own = [plugged_in(runs[0]["title"]) for runs in records.runs().values() if runs[0]["family"] == "Your own"]
    return [method for key, method in METHODS.items() if key in keys] + (own if experiment == "main" else [])


def _section(experiment: str, records: Records, folder: Path, link: str, prefix: str = "") -> str:
    methods, text = _methods(experiment, records), ""
    if experiment in _WITH_TABLE:
        text += method_table(records, methods, experiment)
        text += "\n" + order_words(order_of(records, methods, experiment), METHODS)
    if experiment == "main":
        text += "\nF1 of the classical filters under every rule:\n\n" + rules_table(records, methods)
    if experiment == "latency":
        text += _latency_table(records, methods)
    for name, (words, draw) in _figures(experiment, records, methods).items():
        content = draw()
        if content is None:
            text += f"\n*{words}*: not run yet.\n"
            continue
        write_whole(folder / f"{prefix}{name}.png", content)
        text += f"\n![{words}]({link}/{prefix}{name}.png)\n*{words}*\n"
    return text


def _figures(experiment: str, records: Records, methods: list[Method]) -> Figures:
    shown: dict[str, Figures] = {
        "plume-size": {
            "plume-size": (
                "F1 and pixel false positive rate by the number of plume pixels",
                lambda: plume_size(records, methods),
            )
        },
        "bubble": {
            "bubble": (
                "F1 against the time a tile; the area of a marker follows the number of parameters",
                lambda: bubble(records, methods),
            )
        },
        "curriculum": {
            "curriculum": (
                "FLAME's score as its teacher falls silent (1) and in the kept epoch (2)",
                lambda: panels.curriculum(records),
            ),
            "score": ("FLAME's score and probability", lambda: panels.score_and_probability(records)),
        },
        "components": {
            "components": ("Probability maps by component", lambda: panels.components(records, methods)),
        },
        "qualitative": {
            "qualitative": (
                "Masks: found green, false blue, missed red",
                lambda: panels.qualitative(records, methods),
            ),
            **{
                f"maps-{kind}": (f"Maps of the {kind} tile", _maps_of(records, methods, kind))
                for kind in ("strong", "weak", "empty")
            },
        },
    }
    return shown.get(experiment, {})


def _maps_of(records: Records, methods: list[Method], kind: str) -> Callable[[], bytes | None]:
    return lambda: panels.method_maps(records, methods, kind)


def _latency_table(records: Records, methods: list[Method]) -> str:
    report: dict[str, Any] = records.latency()
    if not report:
        return "Not measured yet.\n"
    machine, times, side = report["machine"], report["methods"], report["scale"]["size"]
    flame = times.get("flame", {}).get("ms")
    lines = [
        f"One tile of {side} x {side} pixels, radiance to mask, in turn, median of {report['rounds']} rounds; "
        f"{machine['device']}, threads: {machine['threads']}, networks in PyTorch, untrained weights.\n",
        "| method | ms a tile | of it preparation or filter | of it network | times FLAME |",
        "|---|---:|---:|---:|---:|",
    ]
    for method in methods:
        found = times.get(method.key)
        if found is None:
            lines.append(f"| {method.title} | not measured yet | | | |")
            continue
        before = found.get("preparation_ms", found.get("filter_ms"))
        first = "" if before is None else f"{before:.1f}"
        network = f"{found['network_ms']:.1f}" if "network_ms" in found else ""
        ratio = f"{found['ms'] / flame:.2f}" if flame else ""
        lines.append(f"| {method.title} | {found['ms']:.1f} | {first} | {network} | {ratio} |")
    return "\n".join(lines) + "\n"
