"""The pages of docs/ as a whole: what they name exists, and every one is found."""
