"""What kits try at random: sizes, rows, parameters, seeds; requests that come and go; other surroundings."""
