"""The pictures: bars for samplers and selectors, timelines for stopping criteria, and single figures."""
