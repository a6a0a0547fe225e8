"""What the testbed's nodes need: the tests name it as the verb that makes it does."""

from __future__ import annotations

from tests.nodes import configs
from verbs import node_image


def test_the_images_and_where_the_packages_are() -> None:
    assert (configs.IMAGE, configs.PAUSE) == (node_image.IMAGE, node_image.PAUSE)
    assert configs.DEBIAN == node_image.UNPACKED
