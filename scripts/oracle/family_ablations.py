"""What can be taken away from the models of single families: see ablations.py.

Each function yields (what is taken away, model without it). load() makes the model anew, changed(NAME=value) with
another config, zeroed(PATTERN, value) with this value in all parameters of such a name.
"""

import torch


def gpt_oss(load, changed, zeroed):
    """Of gpt-oss: sinks, clamped gates, biases of experts, shares of the chosen."""
    yield "sinks", zeroed("sinks", -1e4)
    yield "limit of gates and ups", changed(swiglu_limit=1e4)
    yield "alpha of gates", changed(swiglu_alpha=1.0)
    for what in ("router.bias", "gate_up_proj_bias", "down_proj_bias"):
        yield what, zeroed(what, 0.0)
    plain = load()
    for layer in plain.model.layers:
        experts = layer.mlp.experts
        experts._apply_gate = lambda x, e=experts: type(e)._apply_gate(e, x) - glu_of(e, x)
    yield "1 added to ups", plain
    plain = load()
    for layer in plain.model.layers:
        layer.mlp.router.forward = lambda x, r=layer.mlp.router: shares_of_all(r, x)
    yield "shares of the chosen alone", plain


def glu_of(experts, gate_up):
    """What the 1 that gpt-oss adds to ups is worth."""
    gate = gate_up[..., ::2].clamp(max=experts.limit)
    return gate * torch.sigmoid(gate * experts.alpha)


def shares_of_all(router, x):
    """A router of gpt-oss whose shares are a softmax over all experts."""
    scores = torch.nn.functional.linear(x, router.weight, router.bias)
    shares, chosen = torch.topk(scores.softmax(-1), router.top_k, dim=-1)
    return scores, shares, chosen


def delta_nets(config, load):
    """Of Qwen3.5 and Qwen3-Next: gated delta nets, and gates of attention."""
    nets = lambda other: [
        layer.linear_attn for layer in other.model.layers if layer.block_type == "linear_attention"]

    def without(change):
        other = load()
        with torch.no_grad():
            for net in nets(other):
                change(net)
        return other

    yield "tokens before, in convolutions", without(lambda net: net.conv1d.weight[:, :, :-1].zero_())
    yield "the first tap of convolutions", without(lambda net: net.conv1d.weight[:, :, :1].zero_())
    yield "forgetting", without(lambda net: net.A_log.fill_(-30.0))
    yield "biases of steps", without(lambda net: net.dt_bias.zero_())
    values = config.linear_num_value_heads // config.linear_num_key_heads  # heads of each key head
    parts = dict(a=("ba", values, values), b=("ba", 0, values))
    parts["z"] = (
        "qkvz", 2 * config.linear_key_head_dim + values * config.linear_value_head_dim,
        values * config.linear_value_head_dim)

    def shut(part):
        def change(net):
            if hasattr(net, f"in_proj_{part}"):
                return getattr(net, f"in_proj_{part}").weight.zero_()
            whole, first, n = parts[part]
            w = getattr(net, f"in_proj_{whole}").weight
            w.view(config.linear_num_key_heads, -1, w.shape[1])[:, first : first + n].zero_()

        return without(change)

    yield "steps by token", shut("a")
    yield "learning by token", shut("b")
    yield "gates of delta nets", shut("z")
    yield "norms of delta nets", without(lambda net: net.norm.weight.fill_(1.0))
    # A gate of 0 halves what all heads read, so that the difference between gates remains.
    other = load()
    with torch.no_grad():
        for layer in other.model.layers:
            if layer.block_type == "full_attention":
                w = layer.self_attn.q_proj.weight
                w.view(-1, 2, config.head_dim, w.shape[1])[:, 1].zero_()
    yield "gates of attention", other


def granite4(config, load, changed):
    """Of Granite 4: layers of Mamba-2."""
    def without(change):
        other = load()
        with torch.no_grad():
            for layer in other.model.layers:
                if layer.mamba is not None:
                    change(layer.mamba)
        return other

    inner = config.mamba_expand * config.hidden_size
    yield "tokens before, in convolutions", without(lambda net: net.conv1d.weight[:, :, :-1].zero_())
    yield "the first tap of convolutions", without(lambda net: net.conv1d.weight[:, :, :1].zero_())
    yield "forgetting", without(lambda net: net.A_log.fill_(-30.0))
    yield "biases of steps", without(lambda net: net.dt_bias.zero_())
    yield "steps by token", without(lambda net: net.in_proj.weight[-net.num_heads :].zero_())
    yield "inputs past the state", without(lambda net: net.D.zero_())
    yield "gates", without(lambda net: net.in_proj.weight[:inner].zero_())
    yield "norms of states", without(lambda net: net.norm.weight.fill_(1.0))
    if config.mamba_n_groups > 1:
        yield "groups of norms", without(lambda net: setattr(net.norm, "group_size", inner))
    yield "biases of convolutions", without(lambda net: net.conv1d.bias.zero_())
    if config.mamba_proj_bias:
        yield "biases before", without(lambda net: net.in_proj.bias.zero_())
        yield "biases behind", without(lambda net: net.out_proj.bias.zero_())
    # the second group writes and reads what the first one does
    for side in (1, 2) if config.mamba_n_groups > 1 else ():
        n, at = config.mamba_d_state, 2 * inner + 2 * (side - 1) * config.mamba_d_state

        def alike(net, n=n, at=at):
            net.in_proj.weight[at + n : at + 2 * n] = net.in_proj.weight[at : at + n]
            net.in_proj.bias[at + n : at + 2 * n] = net.in_proj.bias[at : at + n]
            net.conv1d.weight[at - inner + n : at - inner + 2 * n] = net.conv1d.weight[at - inner : at - inner + n]
            net.conv1d.bias[at - inner + n : at - inner + 2 * n] = net.conv1d.bias[at - inner : at - inner + n]

        yield f"groups {side}", without(alike)
    least, most = config.time_step_limit
    if least > 0:
        yield "the least step", changed(time_step_limit=(0.0, most))
        yield "the largest step", changed(time_step_limit=(least, float("inf")))


def lfm2(config, load):
    """Of LFM2: short convolutions between two gates."""
    def tapped(drop):
        other = load()
        with torch.no_grad():
            for name, p in other.named_parameters():
                if name.endswith("conv.conv.weight"):
                    p[:, :, drop] = 0.0
        return other

    yield "tokens before, in convolutions", tapped(slice(0, -1))
    yield "the first tap of convolutions", tapped(slice(0, 1))
    for gate in (0, 1):  # the one before the convolution, and the one after it
        other = load()
        for layer in other.model.layers:
            if not layer.is_attention_layer:
                n = config.hidden_size
                was = layer.conv.in_proj.forward

                def open_gate(x, was=was, at=gate * n, n=n):
                    y = was(x).clone()
                    y[..., at : at + n] = 1.0
                    return y

                layer.conv.in_proj.forward = open_gate
        yield f"gate {gate} of convolutions", other


def gemma4(config, load, changed):
    """Of Gemma 4: shared keys and values, embeddings of layers, experts."""

    def without(change):
        other = load()
        with torch.no_grad():
            for i, layer in enumerate(other.model.layers):
                change(i, layer)
        return other

    def no_norm_of_values(i, layer):
        if hasattr(layer.self_attn, "v_norm"):
            layer.self_attn.v_norm.forward = lambda x: x

    def values_of_normalized_keys(i, layer):
        a = layer.self_attn
        if a.use_alternative_attention:
            a.v_norm.forward = lambda x: a.k_norm(x)

    def scaled(i, layer):
        layer.self_attn.scaling = layer.self_attn.head_dim**-0.5

    if config.enable_moe_block:

        def same_as_feed_forward(i, layer):
            layer.pre_feedforward_layernorm_2.forward = layer.pre_feedforward_layernorm.forward

        def after_its_norm(i, layer):
            was = layer.router.forward
            layer.router.forward = lambda x: was(layer.pre_feedforward_layernorm_2(x))

        def root(i, layer):
            layer.router.scalar_root_size = 1.0

        yield "experts chosen", changed(top_k_experts=config.top_k_experts - 1)
        yield "norm of experts' inputs", without(same_as_feed_forward)
        yield "what the router reads", without(after_its_norm)
        yield "divisor of the router's scores", without(root)
        yield "weights of the router's norm", without(lambda i, layer: layer.router.scale.fill_(1.0))
        yield "numbers of experts", without(lambda i, layer: layer.router.per_expert_scale.fill_(1.0))
    yield "norm of values", without(no_norm_of_values)
    yield "scale of scores", without(scaled)
    yield "scale of a layer", without(lambda i, layer: layer.layer_scalar.fill_(1.0))
    if config.final_logit_softcapping:
        yield "soft cap of logits", changed(final_logit_softcapping=None)
    if config.attention_k_eq_v:
        yield "values of keys before their norm", without(values_of_normalized_keys)
    if config.num_kv_shared_layers:
        owners = {config.num_hidden_layers - config.num_kv_shared_layers - n for n in (1, 2)}

        def first_of_its_type(i, layer):
            layer.self_attn.store_full_length_kv = i + 2 in owners

        yield "which layer's keys and values are shared", without(first_of_its_type)
    if config.hidden_size_per_layer_input:

        def tokens_alone(other):
            other.model.per_layer_model_projection.weight.zero_()

        def embeddings_alone(other):
            other.model.embed_tokens_per_layer.weight.zero_()

        def not_scaled(other):
            other.model.embed_tokens_per_layer.embed_scale.fill_(1.0)

        for what, change in (
            ("hidden states in a layer's embedding", tokens_alone),
            ("the token in it", embeddings_alone),
            ("the scale of the token's part", not_scaled),
        ):
            other = load()
            with torch.no_grad():
                change(other)
            yield what, other  # the norm after it removes the scale of both


def changer(load):
    """What makes a model whose layers are changed."""
    def without(change):
        other = load()
        with torch.no_grad():
            for layer in other.model.layers:
                change(layer)
        return other

    return without


def deepseek(config, load, changed):
    """Of DeepSeek V2 and V3: the part of keys that is turned, the scale of scores, the router."""
    def scaled(layer):
        layer.self_attn.scaling = layer.self_attn.qk_head_dim**-0.5

    def turned(layer):
        layer.self_attn.kv_a_proj_with_mqa.weight[config.kv_lora_rank :].zero_()

    if "mscale_all_dim" in config.rope_parameters:
        yield "mscale_all_dim in the scale of scores", changer(load)(scaled)
    yield "the part of keys that is turned", changer(load)(turned)
    yield from routed(config, load, changed)
    if config.model_type == "deepseek_v3":
        yield "rotation of neighbours", changed(rope_interleave=False)


def routed(config, load, changed):
    """Of routers as DeepSeek's."""
    yield "routed_scaling_factor", changed(routed_scaling_factor=1.0)
    plain = load()
    plain.model.layers[0].mlp = plain.model.layers[1].mlp
    yield "a layer without experts", plain
    if config.n_group:
        yield "groups of experts", changed(topk_group=config.n_group)
        yield "how many groups", changed(topk_group=1)
    if config.model_type != "deepseek_v2":
        yield from sigmoid_router(changer(load))


def lfm2_moe(load, changed):
    """Of LFM2's mixtures: the router."""
    def unbiased(layer):
        if hasattr(layer.feed_forward, "expert_bias"):
            layer.feed_forward.expert_bias.zero_()

    def by_softmax(layer):
        if hasattr(layer.feed_forward, "gate"):
            gate = layer.feed_forward.gate
            was = gate.forward

            def forward(*args):
                logits, _, chosen = was(*args)
                shares = logits.softmax(-1).gather(1, chosen)
                return logits, shares / shares.sum(-1, keepdim=True) * gate.routed_scaling_factor, chosen

            gate.forward = forward

    yield "routed_scaling_factor", changed(routed_scaling_factor=1.0)
    yield "expert_bias", changer(load)(unbiased)
    yield "shares by sigmoid", changer(load)(by_softmax)
    plain = load()
    plain.model.layers[0].feed_forward = plain.model.layers[1].feed_forward
    yield "a layer without experts", plain


def sigmoid_router(without):
    """Of the router of DeepSeek V3."""
    def of_gates(change):
        return without(lambda layer: change(layer.mlp.gate) if hasattr(layer.mlp, "gate") else None)

    def largest_of_groups(gate):
        def forward(x):
            logits = torch.nn.functional.linear(x.view(-1, x.shape[-1]), gate.weight)
            scores = logits.sigmoid()
            choice = scores + gate.e_score_correction_bias
            choice = choice.view(-1, gate.num_group, gate.num_experts // gate.num_group)
            groups = torch.topk(choice.max(-1).values, gate.topk_group, dim=-1)[1]
            mask = torch.zeros(choice.shape[:2]).scatter_(1, groups, 1).bool().unsqueeze(-1)
            chosen = torch.topk(choice.masked_fill(~mask, float("-inf")).flatten(1), gate.top_k, dim=-1)[1]
            shares = scores.gather(1, chosen)
            return logits, shares / shares.sum(-1, keepdim=True) * gate.routed_scaling_factor, chosen

        gate.forward = forward

    def not_sigmoid(gate):
        was = gate.forward

        def forward(x):
            logits, _, chosen = was(x)
            shares = logits.softmax(-1).gather(1, chosen)
            return logits, shares / shares.sum(-1, keepdim=True) * gate.routed_scaling_factor, chosen

        gate.forward = forward

    yield "e_score_correction_bias", of_gates(lambda gate: gate.e_score_correction_bias.zero_())
    yield "two experts that speak for a group", of_gates(largest_of_groups)
    yield "shares by sigmoid", of_gates(not_sigmoid)
