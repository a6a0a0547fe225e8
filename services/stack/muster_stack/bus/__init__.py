"""Who may use the stack's Kafka: identities with passwords, access rules, and how both reach the broker.

`access.py` is the entry: `Access.of(layout)` knows every identity and rule, `settle()` makes a running broker agree
with them. Nothing here imports a Kafka client, which would cost the keeper 25 MB.
"""
