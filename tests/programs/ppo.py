# Proximal policy optimisation of a walker on a line; one file, no gym.
import argparse
import random

import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--num-envs", type=int, default=4)
    parser.add_argument("--num-steps", type=int, default=24)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--update-epochs", type=int, default=3)
    parser.add_argument("--minibatch-size", type=int, default=32)
    parser.add_argument("--gamma", type=float, default=0.97)
    parser.add_argument("--gae-lambda", type=float, default=0.95)
    parser.add_argument("--clip-coef", type=float, default=0.2)
    parser.add_argument("--ent-coef", type=float, default=0.01)
    parser.add_argument("--vf-coef", type=float, default=0.5)
    parser.add_argument("--max-grad-norm", type=float, default=0.5)
    return parser.parse_args()


class LineWorld:
    """Reach the flag at +1; actions are left, stay, right."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.x, self.v, self.t = random.uniform(-0.5, 0.5), 0.0, 0
        return [self.x, self.v]

    def step(self, action):
        self.v = 0.8 * self.v + 0.1 * (action - 1)
        self.x += self.v
        self.t += 1
        done = abs(self.x) > 1.5 or self.t >= 20
        reward = -abs(1.0 - self.x)
        obs = self.reset() if done else [self.x, self.v]
        return obs, reward, done


def layer_init(layer, std=2 ** 0.5, bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(2, 32)), nn.Tanh(),
            layer_init(nn.Linear(32, 32)), nn.Tanh(),
            layer_init(nn.Linear(32, 1), std=1.0))
        self.actor = nn.Sequential(
            layer_init(nn.Linear(2, 32)), nn.Tanh(),
            layer_init(nn.Linear(32, 32)), nn.Tanh(),
            layer_init(nn.Linear(32, 3), std=0.01))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        logits = self.actor(x)
        probs = Categorical(logits=logits)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


def train_step(agent, optimizer, args, obs, actions, logprobs, advantages, returns):
    _, newlogprob, entropy, newvalue = agent.get_action_and_value(obs, actions.long())
    ratio = (newlogprob - logprobs).exp()
    mb_advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    pg_loss1 = -mb_advantages * ratio
    pg_loss2 = -mb_advantages * torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
    pg_loss = torch.max(pg_loss1, pg_loss2).mean()
    v_loss = 0.5 * ((newvalue.view(-1) - returns) ** 2).mean()
    loss = pg_loss - args.ent_coef * entropy.mean() + v_loss * args.vf_coef
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
    optimizer.step()
    return loss.detach(), v_loss.detach()


if __name__ == "__main__":
    args = parse_args()
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    envs = [LineWorld() for _ in range(args.num_envs)]
    agent = Agent()
    optimizer = optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)

    size = (args.num_steps, args.num_envs)
    obs = torch.zeros(size + (2,))
    actions, logprobs, rewards, dones, values = (torch.zeros(size) for _ in range(5))
    next_obs = torch.tensor([env.reset() for env in envs])
    next_done = torch.zeros(args.num_envs)

    for update in range(1, args.updates + 1):
        for step in range(args.num_steps):
            obs[step] = next_obs
            dones[step] = next_done
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
                values[step] = value.flatten()
            actions[step] = action
            logprobs[step] = logprob
            results = [env.step(a) for env, a in zip(envs, action.tolist())]
            next_obs = torch.tensor([r[0] for r in results])
            rewards[step] = torch.tensor([r[1] for r in results]).view(-1)
            next_done = torch.tensor([float(r[2]) for r in results])

        with torch.no_grad():  # generalised advantage estimation
            next_value = agent.get_value(next_obs).reshape(1, -1)
            advantages = torch.zeros_like(rewards)
            lastgaelam = 0
            for t in reversed(range(args.num_steps)):
                if t == args.num_steps - 1:
                    nextnonterminal, nextvalues = 1.0 - next_done, next_value
                else:
                    nextnonterminal, nextvalues = 1.0 - dones[t + 1], values[t + 1]
                delta = rewards[t] + args.gamma * nextvalues * nextnonterminal - values[t]
                lastgaelam = delta + args.gamma * args.gae_lambda * nextnonterminal * lastgaelam
                advantages[t] = lastgaelam
            returns = advantages + values

        flat = [x.reshape((-1,) + x.shape[2:]) for x in (obs, actions, logprobs, advantages, returns)]
        for epoch in range(args.update_epochs):
            for inds in torch.randperm(flat[0].shape[0]).split(args.minibatch_size):
                loss, v_loss = train_step(agent, optimizer, args, *[x[inds] for x in flat])
        print(f"update {update}: reward {rewards.mean().item():.3f} loss {loss.item():.4f} "
              f"value loss {v_loss.item():.4f}")
