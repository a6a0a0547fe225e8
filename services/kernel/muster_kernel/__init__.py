"""The shared language of all rooms: ids, quantities, lifecycle and reasons. Pure, standard library only."""
