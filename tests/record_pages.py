"""Hypothesis strategies and small builders shared by the tests."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from hypothesis import strategies as st


@st.composite
def trees(draw, max_nodes=60, n_tags=3):
    """One tree as (tags, depths): few tags, so that subtrees repeat."""
    n_nodes = draw(st.integers(1, max_nodes))
    tags = draw(st.lists(st.integers(1, n_tags), min_size=n_nodes, max_size=n_nodes))
    steps = draw(st.lists(st.integers(-3, 1), min_size=n_nodes - 1, max_size=n_nodes - 1))
    depths = [0]
    for step in steps:
        depths.append(max(1, depths[-1] + step))
    return np.array(tags, np.uint16), np.array(depths, np.int32)


def node_ranges(starts, ends):
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def nested_tree(tags, depths):
    """Return a tree as (tag, children), made without looking at any code under test."""
    path = []
    for tag, depth in zip(tags.tolist(), depths.tolist(), strict=True):
        del path[depth:]
        node = (tag, [])
        if path:
            path[-1][1].append(node)
        path.append(node)
    return freeze_tree(path[0])


def freeze_tree(node):
    return node[0], tuple(freeze_tree(child) for child in node[1])


@dataclass
class HtmlNode:
    """An element of a generated page; its tags are custom ones, which nest in any way."""

    tag: str
    children: list[HtmlNode]

    @property
    def n_nodes(self):
        return 1 + sum(child.n_nodes for child in self.children)

    def __str__(self):
        return f"<{self.tag}>{''.join(map(str, self.children))}</{self.tag}>"


def html_records(tags=("x-a", "x-b", "x-c")):
    """A record: a small tree of custom elements."""
    leaves = st.builds(HtmlNode, st.sampled_from(tags), st.just([]))
    return st.recursive(
        leaves, lambda inner: st.builds(HtmlNode, st.sampled_from(tags), st.lists(inner, max_size=3)), max_leaves=6
    )


def plant_records(record, n_copies, random):
    """Put copies of a record into a page with other content; return the page and where the first copy begins."""
    before = "<h1>title</h1>" * random.randrange(2)
    wrappers = random.randrange(3)
    html = f"{before}<main>{'<section>' * wrappers}<hr>{str(record) * n_copies}<hr>{'</section>' * wrappers}</main>"
    return f"{html}<footer>end</footer>", 3 + len(before) // len("<h1>title</h1>") + 1 + wrappers + 1


_SHOP_PARTS = ("<ul><li></li></ul>", "<button></button>", "<p><span></span></p>", "<span></span>", "<a><img></a>")
_SHOP_FRAMES = ("<nav><a></a><a></a></nav>", "<aside><form><input></form></aside>", "<table><tr><td></table>")


def shop_page(template, n_items, random):
    """A page of one of 60 similar shops: the template says which two parts end an item and what stands below the list.

    Items have optional parts: most a rating, some a badge.
    """
    tail = list(permutations(_SHOP_PARTS, 2))[template % 20]
    frame = _SHOP_FRAMES[template // 20]
    rating, badge = "<div>" + "<svg></svg>" * 4 + "</div>", "<label></label>"
    items = (
        "<div><img><h2><a></a></h2><p></p>" + (rating if random.random() < 0.7 else "") + "".join(tail)
        + (badge if random.random() < 0.2 else "") + "</div>"
        for _ in range(n_items)
    )  # fmt: skip
    return f"<header><h1></h1></header><main>{''.join(items)}</main>{frame}<footer><p></p></footer>".encode()
