"""Every method of the comparison: classical filters, the paper's networks with either input, FLAME and its variants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from flame.bench.comparison.experiments import EXPERIMENTS
from flame.bench.comparison.scales import Scale
from flame.errors import FlameError
from flame.filters import FILTERS
from flame.models.networks import NETWORKS
from flame.training.batches import BatchSettings
from flame.training.overrides import override
from flame.training.recipes import Recipe, on_network, recipe

__all__ = ["FAMILIES", "METHODS", "Method", "UnknownMethodError", "chosen_methods", "plugged_in", "recipe_of"]

FAMILIES = ("Classical", "Two-stage", "End-to-end", "FLAME", "With FLAME's inputs", "Your own")
"""Groups of a table, in order."""


class UnknownMethodError(FlameError):
    """A method name that is not in the list."""


@dataclass(frozen=True)
class Method:
    """A row of a table.

    Attributes:
        key: Its name, also in file names.
        title: Its name in tables.
        family: One of `FAMILIES`.
        filtered: The classical filter that it is, if it is one.
        recipe: The recipe that it is trained by otherwise.
        changes: Settings changed, as `flame train --set` takes them.
        network: Another network than FLAME.
        conditioned: Whether that network is given FLAME's inputs.
        packaged: A packaged model, judged as it is: trained before, on other tiles.
        level: Where a packaged model's outlines run, if not where it draws them unasked.
    """

    key: str
    title: str
    family: str
    filtered: str | None = None
    recipe: str = "paper"
    changes: tuple[str, ...] = ()
    network: str | None = None
    conditioned: bool = False
    packaged: str | None = None
    level: Literal["visible"] | None = None

    @property
    def trained_here(self) -> bool:
        """Whether it is trained on the tiles of the comparison, and so depends on a seed."""
        return self.filtered is None and self.packaged is None


def _classical() -> list[Method]:
    order = ("cem", "mf", "ace", "cem-additive", "mf-additive", "ace-additive", "mag1c", "mag1c-sas", "noise-aware-mf")
    titles = {"mag1c": "MAG1C-tile"}
    return [Method(key, titles.get(key, FILTERS[key].title), "Classical", key) for key in order]


def _flame() -> list[Method]:
    variants = {
        "flame": ("FLAME", "paper", ()),
        "strict-paper": ("FLAME, nothing of ours", "strict-paper", ()),
        "flame-plus-first": ("flame-plus, first recipe", "flame-plus", ()),
        "flame-no-score": ("FLAME, no score", "paper", ("model.score=none",)),
        "flame-fixed": ("FLAME, fixed background, fixed weights", "paper", ("model.score=fixed",)),
        "flame-weights": ("FLAME, fixed background, learned weights", "paper", ("model.score=weights",)),
    }
    backbones = {"fno": "FNO", "f-fno": "F-FNO", "tucker-fno": "Tucker-FNO", "uno": "UNO", "wno": "WNO"}
    for name, title in backbones.items():
        variants[f"flame-{name}"] = (f"FLAME on {title}", "paper", (f"model.backbone={name}",))
    title = "flame-plus as packaged, trained on other tiles"
    return [
        Method("flame-plus", title, "FLAME", packaged="flame-plus"),
        Method("flame-plus-visible", f"{title}; visible outline", "FLAME", packaged="flame-plus", level="visible"),
        *(
            Method(key, title, "FLAME", recipe=base, changes=changes)
            for key, (title, base, changes) in variants.items()
        ),
    ]


_CONDITIONED_AS_SIBLING = ("unet-mag1c", "linknet-mag1c")
"""Two-stage networks whose conditioned form is that of their sibling: one matched filter takes the place of both."""


def _networks() -> list[Method]:
    own, conditioned = [], []
    for name, entry in NETWORKS.items():
        two_stage = name.startswith(("unet-mag1c", "linknet-mag1c"))
        own.append(Method(name, entry.title, "Two-stage" if two_stage else "End-to-end", network=name))
        if name not in _CONDITIONED_AS_SIBLING:
            title = entry.title.split("+")[0] + "+matched filter" if two_stage else entry.title
            key = f"{name.removesuffix('-mag1c-sas')}-matched-filter" if two_stage else f"{name}-conditioned"
            conditioned.append(Method(key, title, "With FLAME's inputs", network=name, conditioned=True))
    return own + conditioned


METHODS: dict[str, Method] = {method.key: method for method in (*_classical(), *_flame(), *_networks())}
"""Every method by its key."""

_FIRST = ("flame-plus", "flame", "unet-mag1c-sas", "segformer-cu", "unet", "linknet-mag1c-sas", "efficientvit-cu")
"""After the filters these come first, one of each family: a stopped comparison says something of all."""

_OF_OTHER_TABLES = tuple(dict.fromkeys(EXPERIMENTS["backbones"].methods + EXPERIMENTS["components"].methods))


def _in_order(methods: tuple[str, ...]) -> list[Method]:
    rank = {key: place for place, key in enumerate((*(k for k, m in METHODS.items() if m.filtered), *_FIRST))}
    return [METHODS[key] for key in sorted(methods, key=lambda key: rank.get(key, len(rank)))]


def chosen_methods(experiment: str, only: tuple[str, ...] = ()) -> list[Method]:
    """The methods of an experiment in the order in which they are run; with `only`, those of them.

    Args:
        experiment: One of `EXPERIMENTS`.
        only: Keys, or `module:Name` of a network of the user's own.

    Raises:
        UnknownMethodError: If a key is none of the experiment's; the message lists those.
    """
    asked = EXPERIMENTS[experiment]
    whole = tuple(key for key in METHODS if asked.every or key == "flame" or key not in _OF_OTHER_TABLES)
    offered = asked.methods or whole
    wanted = tuple(key for key in only if ":" not in key) if only else offered
    if unknown := [key for key in wanted if key not in offered]:
        raise UnknownMethodError(f"'{experiment}' has no method '{unknown[0]}'; it has {', '.join(offered)}")
    return _in_order(wanted) + [plugged_in(name) for name in only if ":" in name]


def plugged_in(name: str) -> Method:
    """A network of the user's own as a row."""
    return Method(name.replace(":", ".").replace(" ", "_"), name, "Your own", network=name)


def recipe_of(method: Method, scale: Scale, changes: tuple[str, ...] = ()) -> Recipe:
    """How a method is trained: the paper's way at the scale's size, and its own learning rate.

    The teacher's share of the training stays the paper's: 10 epochs of 50.

    Args:
        method: The method.
        scale: How many epochs, and tiles in a batch; whole tiles are trained on.
        changes: Settings changed in every run, as `flame train --set` takes them.
    """
    base = recipe(method.recipe)
    loss = base.loss
    if loss.teacher == "mag1c_sas":
        loss = replace(loss, teacher_epochs=float(scale.phase_one_epochs))
    chosen = replace(base, batch=BatchSettings(size=scale.batch), epochs=scale.epochs, loss=loss)
    if method.network is not None:
        chosen = on_network(chosen, method.network, method.conditioned)
    return override(chosen, [*method.changes, *changes])
