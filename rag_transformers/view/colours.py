"""A colour for each community: as far from its neighbours' as can be, and equally light, on white and on black."""

import math

__all__ = ["colour"]

_GOLDEN = (math.sqrt(5) - 1) / 2
_SHADES = ((0.68, 0.15), (0.58, 0.17), (0.78, 0.12))
_ROUND = 11  # hues until the next shade


def colour(number: int) -> str:
    """The colour of the community of that number, as ``#rrggbb``.

    Hues go round by the golden ratio, so that any run of numbers is spread evenly, in OKLCH, where equal lightness
    looks equally light.

    Source: B. Ottosson, A perceptual color space for image processing (2020).

    >>> colour(0), colour(1)
    ('#e66f61', '#489cf1')
    """
    light, strength = _SHADES[number // _ROUND % len(_SHADES)]
    hue = math.tau * ((0.08 + number * _GOLDEN) % 1)
    a, b = strength * math.cos(hue), strength * math.sin(hue)
    long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return "#" + "".join(
        f"{_channel(value):02x}"
        for value in (
            4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
            -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
            -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
        )
    )


def _channel(linear: float) -> int:
    """A linear share of red, green or blue as a byte of sRGB; what no screen shows is cut."""
    value = min(max(linear, 0.0), 1.0)
    gamma = 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
    return round(255 * gamma)
