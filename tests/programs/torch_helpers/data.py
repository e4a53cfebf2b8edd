import torch


def ring_of_communities(communities=4, size=12, p_in=0.4, p_out=0.02):
    """Features, labels and edges [2, E] of a graph whose groups of nodes are its classes."""
    n = communities * size
    labels = torch.arange(communities).repeat_interleave(size)
    same = labels[:, None] == labels[None, :]
    chance = torch.where(same, p_in, p_out)
    upper = torch.triu(torch.rand(n, n) < chance, diagonal=1)
    edges = upper.nonzero().t()
    edge_index = torch.cat([edges, edges.flip(0)], dim=1)
    features = torch.randn(n, 8) + 0.5 * torch.nn.functional.one_hot(labels, 8)
    return features, labels, edge_index
