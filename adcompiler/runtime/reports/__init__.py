"""What a function says about itself: `show`, `explain`, costs."""
