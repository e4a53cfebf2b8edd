"""Soft actor-critic on a point that is pushed to the origin."""
import argparse
import copy
import random
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal

LOG_STD_MAX = 2
LOG_STD_MIN = -5
Transition = namedtuple("Transition", "obs action reward next_obs done")


class PointEnv:
    def reset(self):
        self.pos = [random.uniform(-1, 1), random.uniform(-1, 1)]
        self.t = 0
        return list(self.pos)

    def step(self, action):
        self.pos = [p + 0.2 * a for p, a in zip(self.pos, action)]
        self.t += 1
        reward = -sum(p * p for p in self.pos)
        return list(self.pos), reward, self.t >= 15


class ReplayBuffer:
    def __init__(self, capacity):
        self.capacity = capacity
        self.storage = []
        self.at = 0

    def add(self, *args):
        if len(self.storage) < self.capacity:
            self.storage.append(None)
        self.storage[self.at] = Transition(*args)
        self.at = (self.at + 1) % self.capacity

    def sample(self, n):
        batch = Transition(*zip(*random.sample(self.storage, n)))
        return Transition(*(torch.tensor(part, dtype=torch.get_default_dtype()) for part in batch))


class SoftQNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 32)
        self.fc2 = nn.Linear(32, 32)
        self.fc3 = nn.Linear(32, 1)

    def forward(self, x, a):
        x = torch.cat([x, a], 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(2, 32)
        self.fc_mean = nn.Linear(32, 2)
        self.fc_logstd = nn.Linear(32, 2)
        self.register_buffer("action_scale", torch.tensor([1.0, 1.0]))

    def forward(self, x):
        x = F.relu(self.fc1(x))
        log_std = torch.tanh(self.fc_logstd(x))
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)
        return self.fc_mean(x), log_std

    def get_action(self, x):
        mean, log_std = self(x)
        normal = Normal(mean, log_std.exp())
        x_t = normal.rsample()  # reparameterisation trick
        y_t = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t)
        log_prob -= torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)
        return y_t * self.action_scale, log_prob.sum(1, keepdim=True)


class SAC:
    def __init__(self, args):
        self.args = args
        self.actor = Actor()
        self.qf1, self.qf2 = SoftQNetwork(), SoftQNetwork()
        self.qf1_target, self.qf2_target = copy.deepcopy(self.qf1), copy.deepcopy(self.qf2)
        self.q_optimizer = torch.optim.Adam(
            list(self.qf1.parameters()) + list(self.qf2.parameters()), lr=args.q_lr)
        self.actor_optimizer = torch.optim.Adam(list(self.actor.parameters()), lr=args.policy_lr)
        self.log_alpha = torch.zeros(1, requires_grad=True)
        self.a_optimizer = torch.optim.Adam([self.log_alpha], lr=args.q_lr)

    def train_step(self, obs, action, reward, next_obs, done):
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            next_action, next_log_pi = self.actor.get_action(next_obs)
            target = torch.min(self.qf1_target(next_obs, next_action),
                               self.qf2_target(next_obs, next_action)) - alpha * next_log_pi
            next_q = reward + (1 - done) * self.args.gamma * target.view(-1)
        qf1_a = self.qf1(obs, action).view(-1)
        qf2_a = self.qf2(obs, action).view(-1)
        qf_loss = F.mse_loss(qf1_a, next_q) + F.mse_loss(qf2_a, next_q)
        self.q_optimizer.zero_grad()
        qf_loss.backward()
        self.q_optimizer.step()

        pi, log_pi = self.actor.get_action(obs)
        min_qf_pi = torch.min(self.qf1(obs, pi), self.qf2(obs, pi))
        actor_loss = ((alpha * log_pi) - min_qf_pi).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()

        alpha_loss = (-self.log_alpha.exp() * (log_pi.detach() - 2.0)).mean()
        self.a_optimizer.zero_grad()
        alpha_loss.backward()
        self.a_optimizer.step()

        for net, target_net in [(self.qf1, self.qf1_target), (self.qf2, self.qf2_target)]:
            for param, target_param in zip(net.parameters(), target_net.parameters()):
                target_param.data.copy_(self.args.tau * param.data
                                        + (1 - self.args.tau) * target_param.data)
        return qf_loss.detach(), actor_loss.detach()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--total-timesteps", type=int, default=75)
    parser.add_argument("--learning-starts", type=int, default=40)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--gamma", type=float, default=0.95)
    parser.add_argument("--tau", type=float, default=0.05)
    parser.add_argument("--q-lr", type=float, default=1e-3)
    parser.add_argument("--policy-lr", type=float, default=3e-3)
    args = parser.parse_args()
    random.seed(0)
    torch.manual_seed(0)
    env, agent, rb = PointEnv(), SAC(args), ReplayBuffer(500)
    obs = env.reset()
    for global_step in range(args.total_timesteps):
        if global_step < args.learning_starts:
            action = [random.uniform(-1, 1) for _ in range(2)]
        else:
            with torch.no_grad():
                action = agent.actor.get_action(torch.tensor([obs]))[0][0].tolist()
        next_obs, reward, done = env.step(action)
        rb.add(obs, action, reward, next_obs, float(done))
        obs = env.reset() if done else next_obs
        if global_step >= args.learning_starts:
            q_loss, pi_loss = agent.train_step(*rb.sample(args.batch_size))
            if global_step % 5 == 0:
                print("global_step=%d, qf_loss=%.4f, actor_loss=%.4f, alpha=%.4f" % (
                    global_step, q_loss, pi_loss, agent.log_alpha.exp().item()))
