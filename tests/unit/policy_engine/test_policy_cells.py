"""The sweep over every cell of the policy table, and that it would notice a judge that lacks a rule."""

from __future__ import annotations

from tests.support.policy_cells import sweep


def test_every_cell_is_judged_and_every_mutation_is_noticed() -> None:
    assert sweep() == {
        "cells": 1_590,
        "accepted": 1_590,
        "refused": 1_590,
        "not_taken": 2_890,
        "default_from": 119,
        "skipped": 0,
        "mutations": 10,
        "caught": 10,
    }
