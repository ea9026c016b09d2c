"""The public functions: `compile`, `Function` and the transforms that take and return one."""
