"""The intermediate representation: arrays, elements, loops, and walks over them."""
