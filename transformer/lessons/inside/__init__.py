"""What stands around attention in a layer: embedding, residual sum, norm, feed-forward net, output layer, as boards."""
