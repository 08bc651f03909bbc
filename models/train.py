#!/usr/bin/env python3
"""Train the small story model that ROCmForge ships as its offline default, and write it as GGUF (F16).

usage: train.py TEXT_DIR OUT_DIR [minutes]      needs: torch with a GPU, sentencepiece
TEXT_DIR holds *.txt, public-domain books. 2% of the paragraphs are kept out of training;
the loss on them is printed and written beside the model.
"""
import glob, json, math, os, random, struct, sys, time
import torch, torch.nn as nn, torch.nn.functional as F
import sentencepiece as spm

VOCAB, DIM, FF, LAYERS, HEADS, KV, HD, CTX, BASE, EPS = (4096, 512, 1536, 6, 8, 2, 64, 1024, 10000.0, 1e-05)


class Norm(nn.Module):
    def __init__(s, d):
        super().__init__()
        s.w = nn.Parameter(torch.ones(d))

    def forward(s, x):
        return F.rms_norm(x.float(), (x.shape[-1],), s.w, EPS).to(x.dtype)


def rope(x, cs):  # x [b, h, t, hd], adjacent pairs rotate together
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    c, s = cs
    return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2).to(x.dtype)


class Layer(nn.Module):
    def __init__(s):
        super().__init__()
        L = lambda i, o: nn.Linear(i, o, bias=False)
        s.an, s.fn = (Norm(DIM), Norm(DIM))
        s.q, s.k, s.v, s.o = (L(DIM, HEADS * HD), L(DIM, KV * HD), L(DIM, KV * HD), L(HEADS * HD, DIM))
        s.g, s.u, s.d = (L(DIM, FF), L(DIM, FF), L(FF, DIM))
        s.drop = nn.Dropout(0.1)

    def forward(s, x, cs):
        b, t, _ = x.shape
        h = s.an(x)
        q, k, v = (p(h).view(b, t, -1, HD).transpose(1, 2) for p in (s.q, s.k, s.v))
        a = F.scaled_dot_product_attention(rope(q, cs), rope(k, cs), v, is_causal=True, enable_gqa=True)
        x = x + s.drop(s.o(a.transpose(1, 2).reshape(b, t, -1)))
        h = s.fn(x)
        return x + s.drop(s.d(F.silu(s.g(h)) * s.u(h)))


class Model(nn.Module):
    def __init__(s):
        super().__init__()
        s.emb = nn.Embedding(VOCAB, DIM)
        s.layers = nn.ModuleList((Layer() for _ in range(LAYERS)))
        s.norm = Norm(DIM)
        f = BASE ** (-torch.arange(0, HD, 2).float() / HD)
        a = torch.outer(torch.arange(CTX).float(), f)
        s.register_buffer('c', a.cos())
        s.register_buffer('s', a.sin())
        for p in s.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)
        for l in s.layers:
            nn.init.normal_(l.o.weight, std=0.02 / (2 * LAYERS) ** 0.5)
            nn.init.normal_(l.d.weight, std=0.02 / (2 * LAYERS) ** 0.5)

    def forward(s, t):
        x = s.emb(t)
        cs = (s.c[: t.shape[1]], s.s[: t.shape[1]])
        for l in s.layers:
            x = l(x, cs)
        return s.norm(x) @ s.emb.weight.T


def corpus(d):
    rnd = random.Random(0)
    train, held = ([], [])
    for f in sorted(glob.glob(f'{d}/*.txt')):
        paras = [p.strip() for p in open(f, encoding='utf-8').read().split('\n') if p.strip()]
        for i in range(0, len(paras), 40):
            (held if rnd.random() < 0.02 else train).append('\n'.join(paras[i : i + 40]))
    return (train, held)


def gguf(path, model, sp, meta):
    def s(x):
        x = x.encode() if isinstance(x, str) else x
        return struct.pack('<Q', len(x)) + x

    def kv(k, v):
        if isinstance(v, int):
            t, r = (4, struct.pack('<I', v))
        elif isinstance(v, float):
            t, r = (6, struct.pack('<f', v))
        elif isinstance(v, str):
            t, r = (8, s(v))
        else:
            et, f = {str: (8, s), float: (6, lambda x: struct.pack('<f', x)), int: (5, lambda x: struct.pack('<i', x))}[
                type(v[0])
            ]
            t, r = (9, struct.pack('<IQ', et, len(v)) + b''.join(map(f, v)))
        return s(k) + struct.pack('<I', t) + r

    kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1 for i in range(VOCAB)]
    meta = {
        'general.architecture': 'llama',
        'general.alignment': 32,
        **meta,
        'llama.context_length': CTX,
        'llama.embedding_length': DIM,
        'llama.block_count': LAYERS,
        'llama.feed_forward_length': FF,
        'llama.attention.head_count': HEADS,
        'llama.attention.head_count_kv': KV,
        'llama.attention.layer_norm_rms_epsilon': EPS,
        'llama.rope.freq_base': BASE,
        'llama.rope.dimension_count': HD,
        'llama.vocab_size': VOCAB,
        'general.file_type': 1,
        'tokenizer.ggml.model': 'llama',
        'tokenizer.ggml.tokens': [sp.id_to_piece(i) for i in range(VOCAB)],
        'tokenizer.ggml.scores': [float(sp.get_score(i)) for i in range(VOCAB)],
        'tokenizer.ggml.token_type': kinds,
        'tokenizer.ggml.bos_token_id': sp.bos_id(),
        'tokenizer.ggml.eos_token_id': sp.eos_id(),
        'tokenizer.ggml.unknown_token_id': sp.unk_id(),
        'tokenizer.chat_template': "{% for m in messages %}{{ m['content'] }}{% if not loop.last %}\n{% endif %}{% endfor %}",
    }
    ts = [('token_embd.weight', model.emb.weight), ('output_norm.weight', model.norm.w)]
    for i, l in enumerate(model.layers):
        b = f'blk.{i}.'
        ts += [
            (b + 'attn_norm.weight', l.an.w),
            (b + 'ffn_norm.weight', l.fn.w),
            (b + 'attn_q.weight', l.q.weight),
            (b + 'attn_k.weight', l.k.weight),
            (b + 'attn_v.weight', l.v.weight),
            (b + 'attn_output.weight', l.o.weight),
            (b + 'ffn_gate.weight', l.g.weight),
            (b + 'ffn_up.weight', l.u.weight),
            (b + 'ffn_down.weight', l.d.weight),
        ]
    info, blobs, off = (b'', [], 0)
    for n, t in ts:
        a = t.detach().float().cpu()
        f32 = a.dim() == 1
        raw = (a if f32 else a.half()).contiguous().numpy().tobytes()
        dims = list(reversed(a.shape))
        info += (
            s(n)
            + struct.pack('<I', len(dims))
            + b''.join((struct.pack('<Q', x) for x in dims))
            + struct.pack('<IQ', 0 if f32 else 1, off)
        )
        blobs.append(raw)
        off += (len(raw) + 31) // 32 * 32
    with open(path, 'wb') as f:
        f.write(
            b'GGUF' + struct.pack('<IQQ', 3, len(ts), len(meta)) + b''.join((kv(k, v) for k, v in meta.items())) + info
        )
        f.write(b'\x00' * (-f.tell() % 32))
        for r in blobs:
            f.write(r)
            f.write(b'\x00' * (-f.tell() % 32))


def main():
    src, out = sys.argv[1:3]
    minutes = float(sys.argv[3]) if len(sys.argv) > 3 else 10
    os.makedirs(out, exist_ok=True)
    train, held = corpus(src)
    open('/tmp/t.txt', 'w').write('\n'.join(train))
    spm.SentencePieceTrainer.train(
        input='/tmp/t.txt',
        model_prefix='/tmp/tok',
        vocab_size=VOCAB,
        model_type='bpe',
        byte_fallback=True,
        character_coverage=0.9995,
        normalization_rule_name='identity',
        remove_extra_whitespaces=False,
        num_threads=16,
        input_sentence_size=400000,
        shuffle_input_sentence=True,
        minloglevel=2,
    )
    sp = spm.SentencePieceProcessor('/tmp/tok.model')
    ids = lambda docs: torch.tensor([x for d in docs for x in [sp.bos_id()] + sp.encode(d)])
    dev = 'cuda'
    tr, va = (ids(train), ids(held))
    print('tokens', len(tr), len(va), flush=True)
    tr_g = tr.to(dev)
    torch.manual_seed(0)
    m = Model().to(dev)
    print('params', sum((p.numel() for p in m.parameters())), flush=True)
    decay = [p for p in m.parameters() if p.dim() > 1]
    rest = [p for p in m.parameters() if p.dim() < 2]
    B = 48
    peak = 0.002
    opt = torch.optim.AdamW(
        [{'params': decay, 'weight_decay': 0.1}, {'params': rest, 'weight_decay': 0}],
        lr=peak,
        betas=(0.9, 0.95),
        fused=True,
    )
    fwd = torch.compile(m)
    t0 = time.time()
    step = 0
    frac = 0
    best = 9

    def loss_on(fn, x):
        return F.cross_entropy(fn(x[:, :-1]).float().flatten(0, 1), x[:, 1:].flatten())

    def evaluate():
        m.eval()
        n = (len(va) - 1) // CTX
        tot = 0
        with torch.no_grad(), torch.autocast(dev, torch.bfloat16):
            for i in range(0, n, 16):
                w = torch.stack([va[j * CTX : j * CTX + CTX + 1][:CTX] for j in range(i, min(n, i + 16))]).to(dev)
                tot += loss_on(m, w).item() * len(w)
        m.train()
        return tot / n

    while frac < 1:
        frac = min(1, (time.time() - t0) / (minutes * 60))
        lr = peak * min(1, (step + 1) / 300) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * frac)))
        for g in opt.param_groups:
            g['lr'] = lr
        i = torch.randint(len(tr) - CTX - 1, (B,), device=dev)
        x = tr_g[i[:, None] + torch.arange(CTX + 1, device=dev)]
        with torch.autocast(dev, torch.bfloat16):
            loss = loss_on(fwd, x)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        opt.step()
        step += 1
        if step % 500 == 0:
            print(
                f'{step} train {loss.item():.3f} held-out {evaluate():.3f} {(time.time() - t0) / 60:.1f} min',
                flush=True,
            )
    v = evaluate()
    print('final held-out', v, 'steps', step, flush=True)
    gguf(
        f'{out}/story-f16.gguf',
        m,
        sp,
        {
            'general.name': 'ROCmForge story model',
            'general.license': 'CC0-1.0',
            'general.description': 'A small model of public-domain English fiction, trained for ROCmForge demonstrations.',
        },
    )
    open(f'{out}/held-out.txt', 'w').write('\n\n'.join(held))
    json.dump({'held_out_loss': v, 'steps': step, 'train_tokens': len(tr)}, open(f'{out}/train.json', 'w'))
    m.eval()
    for prompt in ('Once upon a time', 'The old king said to his daughter, ', 'It was a dark night when'):
        t = [sp.bos_id()] + sp.encode(prompt)
        with torch.no_grad(), torch.autocast(dev, torch.bfloat16):
            for _ in range(120):
                l = m(torch.tensor([t[-CTX:]], device=dev))[0, -1].float() / 0.8
                k = l.topk(40)
                t.append(k.indices[torch.multinomial(k.values.softmax(-1), 1)].item())
        print('---', sp.decode(t), flush=True)


main()
