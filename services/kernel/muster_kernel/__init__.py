"""The shared language of every room: ids, quantities, lifecycle, reasons. Pure, standard library only."""
