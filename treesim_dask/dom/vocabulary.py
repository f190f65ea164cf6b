"""Tag names to fixed ids. Version 1; ids are part of the index format, so names are only ever appended.

0 is epsilon, the absent child or sibling, and nothing else. Known tags have ids from 1; all others share the range
from 512 to 1023 by a stable hash, so that every id fits into 10 bits and three of them into one uint32.
"""

from __future__ import annotations

import hashlib

VOCABULARY_VERSION = 1
EPSILON = 0
TAG_BITS = 10
N_IDS = 1 << TAG_BITS
FIRST_UNKNOWN = 512

_HTML = """
a abbr acronym address applet area article aside audio b base basefont bdi bdo bgsound big blink blockquote body br
button canvas caption center cite code col colgroup command content data datalist dd del details dfn dialog dir div
dl dt element em embed fieldset figcaption figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header
hgroup hr html i iframe image img input ins isindex kbd keygen label legend li link listing main map mark marquee
menu menuitem meta meter multicol nav nextid nobr noembed noframes noscript object ol optgroup option output p param
picture plaintext portal pre progress q rb rbc rp rt rtc ruby s samp script search section select shadow slot small
source spacer span strike strong style sub summary sup table tbody td template textarea tfoot th thead time title tr
track tt u ul var video wbr xmp
"""
_SVG = """
svg altglyph altglyphdef altglyphitem animate animatecolor animatemotion animatetransform circle clippath
color-profile cursor defs desc ellipse feblend fecolormatrix fecomponenttransfer fecomposite feconvolvematrix
fediffuselighting fedisplacementmap fedistantlight fedropshadow feflood fefunca fefuncb fefuncg fefuncr
fegaussianblur feimage femerge femergenode femorphology feoffset fepointlight fespecularlighting fespotlight fetile
feturbulence filter font-face font-face-format font-face-name font-face-src font-face-uri foreignobject g glyph
glyphref hatch hatchpath hkern line lineargradient marker mask mesh meshgradient meshpatch meshrow metadata
missing-glyph mpath path pattern polygon polyline radialgradient rect set solidcolor stop switch symbol text
textpath tref tspan unknown use view vkern
"""
_MATHML = """
math annotation annotation-xml maction maligngroup malignmark menclose merror mfenced mfrac mglyph mi mlabeledtr
mlongdiv mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mscarries mscarry msgroup msline
mspace msqrt msrow mstack mstyle msub msubsup msup mtable mtd mtext mtr munder munderover none semantics
"""

TAG_NAMES: tuple[str, ...] = ("", *_HTML.split(), *_SVG.split(), *_MATHML.split())
_IDS = {name: number for number, name in enumerate(TAG_NAMES) if name}


def tag_id(name: str) -> int:
    """Return the id of a tag.

    Examples
    --------
    >>> tag_id("a"), tag_id("A"), tag_id("my-widget") >= 512
    (1, 1, True)
    """
    name = name.lower()
    known = _IDS.get(name)
    if known is not None:
        return known
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return FIRST_UNKNOWN + int.from_bytes(digest, "little") % (N_IDS - FIRST_UNKNOWN)


def tag_name(number: int) -> str:
    """Return the name behind an id: ``ε`` for 0, ``custom-N`` for the shared range.

    Examples
    --------
    >>> tag_name(tag_id("div")), tag_name(0), tag_name(515)
    ('div', 'ε', 'custom-515')
    """
    if number == EPSILON:
        return "ε"
    return TAG_NAMES[number] if number < len(TAG_NAMES) else f"custom-{number}"
