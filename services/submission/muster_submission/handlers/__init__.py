"""Load, ask the domain, stage state and events in one transaction. Called by rpc and stream; knows only ports."""
