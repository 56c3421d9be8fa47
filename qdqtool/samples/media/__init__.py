"""Files that hold no arrays as samples: images, sound and text. Each says which preprocessing makes arrays of them."""
