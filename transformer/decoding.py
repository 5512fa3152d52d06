"""Greedy decoding."""
import torch
from transformer.models.seq2seq import Seq2Seq
@torch.no_grad()
def greedy(model: Seq2Seq, source, max_length: int):
    memory, mask = model.encode(source)
    cache = model.cache(memory, mask)
    new = torch.full((len(source), 1), model.config.bos_id)
    done = torch.zeros(len(source), dtype=torch.bool)
    out = []
    for _ in range(max_length):
        new = model.step(new, cache).argmax(-1)
        new = torch.where(done, model.config.pad_id, new)
        out.append(new)
        done |= new == model.config.eos_id
        if done.all():
            break
        new = new[:, None]
    return torch.stack(out, 1).tolist()
