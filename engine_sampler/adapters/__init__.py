"""Interfaces of other systems, one module each: imported on request, their libraries only where used."""
