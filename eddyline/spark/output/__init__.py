"""What goes out: changes staged by workers, and the delivery that commits them batch by batch."""
