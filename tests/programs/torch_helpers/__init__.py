from .data import ring_of_communities
from .meters import AverageMeter

__all__ = ["AverageMeter", "ring_of_communities"]
