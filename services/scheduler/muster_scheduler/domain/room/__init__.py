"""Making room: who moves, who gives way, and for whom. Pure over columns and arrays; the books carry it out.

Read in this order: values (what comes in and what comes out), stock (what is free once somebody has left), fairness
(who may take from whom), ranking (who goes first), search (the fewest that suffice), then the three ways to make room
in the order in which they are tried: consolidate, reclaim, preempt.
"""
