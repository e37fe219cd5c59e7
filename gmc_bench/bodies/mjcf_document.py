"""One MJCF document: its sections, units, default classes and numbers, with clear refusals.

Source:
    MuJoCo XML reference: default classes, compiler angle, attribute types.
"""

import math
import re
from collections.abc import Mapping
from xml.etree import ElementTree

from gmc_bench.core.errors import MorphologyError
from gmc_bench.core.types import Quat, Vec3

Element = ElementTree.Element
Attributes = dict[str, str]

MAIN = "main"
"""Name of the outermost default class."""

_SECTIONS = {
    "compiler", "option", "size", "default", "worldbody", "actuator", "sensor", "asset", "visual",
    "statistic", "contact", "custom", "keyframe", "equality", "tendon",
}  # fmt: skip
_COMPILER = {"angle", "autolimits", "eulerseq", "meshdir", "texturedir", "assetdir", "strippath"}


class MjcfDocument:
    """A well-formed MJCF document without sections that could change a tree of limbs.

    Args:
        text: the document.
        name: the body's name, for messages.

    Raises:
        MorphologyError: the text is not such a document; so do all methods when a value is wrong.
    """

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        self.root = self._parse(text)
        """The `<mujoco>` element."""
        self._refuse_unsupported_sections()
        self.radians_per_unit = self._angle_unit()
        """What the document's angles are multiplied by."""
        self._defaults = self._default_classes()

    def fail(self, reason: str) -> MorphologyError:
        """Return the error that refuses this document for `reason`."""
        return MorphologyError(f"body {self._name!r} {reason}")

    def only(self, given: Mapping[str, str], allowed: set[str], what: str) -> None:
        """Refuse attributes of `what` that are not in `allowed`."""
        unknown = sorted(set(given) - allowed)
        if unknown:
            raise self.fail(
                f"sets {unknown[0]!r} on {what}, which is not supported; supported are "
                f"{', '.join(sorted(allowed))}"
            )

    def resolve(self, element: Element, childclass: str) -> Attributes:
        """Return an element's attributes completed by its default class."""
        name = element.get("class", childclass)
        if name not in self._defaults:
            raise self.fail(f"uses the default class {name!r}, which is not defined")
        return {**self._defaults[name].get(element.tag, {}), **element.attrib}

    def numbers(self, text: str, what: str, count: int) -> tuple[float, ...]:
        """Read `count` finite numbers; `what` names them in the refusal."""
        try:
            values = tuple(float(word) for word in text.split())
        except ValueError:
            raise self.fail(f"has {what} {text!r}; expected {count} numbers") from None
        if len(values) != count or not all(math.isfinite(value) for value in values):
            raise self.fail(f"has {what} {text!r}; expected {count} finite numbers")
        return values

    def number(self, text: str, what: str) -> float:
        """Read one finite number."""
        return self.numbers(text, what, 1)[0]

    def vec3(self, text: str, what: str) -> Vec3:
        """Read three finite numbers."""
        x, y, z = self.numbers(text, what, 3)
        return (x, y, z)

    def quat(self, text: str, what: str) -> Quat:
        """Read a quaternion and give it unit length; `what` is what it turns."""
        values = self.numbers(text, f"the orientation of {what}", 4)
        length = math.hypot(*values)
        if length < 1e-9:
            raise self.fail(f"has a zero orientation at {what}; expected a unit quaternion")
        # A unit quaternion passes unchanged, so that reading what was written is exact.
        scale = 1.0 if abs(length - 1.0) < 1e-12 else length
        w, x, y, z = (value / scale for value in values)
        return (w, x, y, z)

    def _parse(self, text: str) -> Element:
        # Entities could expand to gigabytes; no robot description needs a document type.
        if re.search(r"<!(DOCTYPE|ENTITY)", text, re.IGNORECASE):
            raise self.fail("declares a document type or entities; remove the <!DOCTYPE ...> part")
        try:
            root = ElementTree.fromstring(text)
        except (ElementTree.ParseError, ValueError) as error:
            raise self.fail(f"is not well-formed XML ({error})") from error
        if root.tag != "mujoco":
            raise self.fail(f"starts with <{root.tag}>; a MJCF file needs <mujoco>")
        return root

    def _refuse_unsupported_sections(self) -> None:
        for section in self.root:
            if section.tag not in _SECTIONS:
                raise self.fail(f"has a <{section.tag}> section, which is not supported")
            if section.tag == "tendon" and len(section):
                raise self.fail("has <tendon> elements, which are not supported; remove them")
            if section.tag == "contact" and section.find("pair") is not None:
                raise self.fail("lists contact pairs; contacts are decided by the engine alone")

    def _angle_unit(self) -> float:
        unit = "degree"
        for compiler in self.root.iterfind("compiler"):
            self.only(compiler.attrib, _COMPILER, "<compiler>")
            unit = compiler.get("angle", unit)
        if unit not in ("degree", "radian"):
            raise self.fail(f"has the angle unit {unit!r}; expected 'degree' or 'radian'")
        return math.radians(1.0) if unit == "degree" else 1.0

    def _default_classes(self) -> dict[str, dict[str, Attributes]]:
        classes: dict[str, dict[str, Attributes]] = {MAIN: {}}
        # A stack instead of recursion: nesting is under the file's control.
        waiting = [(element, "") for element in reversed(self.root.findall("default"))]
        while waiting:
            element, parent = waiting.pop()
            name = element.get("class", "" if parent else MAIN)
            if not name:
                raise self.fail("has a nested <default> without a class name")
            if parent:
                inherited = {tag: dict(given) for tag, given in classes[parent].items()}
                table = classes.setdefault(name, inherited)
            else:  # the outermost class applies everywhere, under any name
                table = classes[name] = classes[MAIN]
            for child in element:
                if child.tag != "default":
                    table.setdefault(child.tag, {}).update(child.attrib)
            waiting += [(child, name) for child in reversed(element.findall("default"))]
        return classes
