"""Deep Q-learning on a small grid with a pit."""
import math, random
import argparse
from collections import deque, namedtuple
from itertools import count

import torch, torch.optim as optim
import torch.nn as nn, torch.nn.functional as F

Transition = namedtuple('Transition', ('state', 'action', 'next_state', 'reward'))
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


class GridWorld(object):
    size = 4

    def reset(self):
        self.x = self.y = 0
        return self.state()

    def state(self):
        return torch.tensor([[self.x / 3., self.y / 3.]], device=device)

    def step(self, action):
        dx, dy = [(1, 0), (-1, 0), (0, 1), (0, -1)][action]
        self.x = min(max(self.x + dx, 0), self.size - 1)
        self.y = min(max(self.y + dy, 0), self.size - 1)
        if (self.x, self.y) == (3, 3):
            return self.state(), 1.0, True
        if (self.x, self.y) == (2, 1):
            return self.state(), -1.0, True
        return self.state(), -0.02, False


class ReplayMemory(object):
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        """Save a transition"""
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super(DQN, self).__init__()
        self.layer1 = nn.Linear(n_observations, 48)
        self.layer2 = nn.Linear(48, 48)
        self.layer3 = nn.Linear(48, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        x = F.relu(self.layer2(x))
        return self.layer3(x)


class Trainer:
    def __init__(self, args):
        self.args = args
        self.policy_net = DQN(2, 4).to(device)
        self.target_net = DQN(2, 4).to(device)
        self.target_net.load_state_dict(self.policy_net.state_dict())
        self.optimizer = optim.AdamW(self.policy_net.parameters(), lr=args.lr, amsgrad=True)
        self.memory = ReplayMemory(1000)
        self.steps_done = 0

    def select_action(self, state):
        sample = random.random()
        eps_threshold = 0.05 + (0.9 - 0.05) * math.exp(-1. * self.steps_done / 60)
        self.steps_done += 1
        if sample > eps_threshold:
            with torch.no_grad():
                return self.policy_net(state).max(1).indices.view(1, 1)
        return torch.tensor([[random.randrange(4)]], device=device, dtype=torch.long)

    def optimize_model(self):
        if len(self.memory) < self.args.batch_size:
            return None
        batch = Transition(*zip(*self.memory.sample(self.args.batch_size)))
        non_final_mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)),
                                      device=device, dtype=torch.bool)
        non_final_next_states = torch.cat([s for s in batch.next_state if s is not None])
        state_batch = torch.cat(batch.state)
        action_batch = torch.cat(batch.action)
        reward_batch = torch.cat(batch.reward)

        state_action_values = self.policy_net(state_batch).gather(1, action_batch)
        next_state_values = torch.zeros(self.args.batch_size, device=device)
        with torch.no_grad():
            next_state_values[non_final_mask] = self.target_net(non_final_next_states).max(1).values
        expected = (next_state_values * self.args.gamma) + reward_batch

        criterion = nn.SmoothL1Loss()
        loss = criterion(state_action_values, expected.unsqueeze(1))
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(self.policy_net.parameters(), 100)
        self.optimizer.step()
        return loss.item()

    def soft_update(self):
        target, policy = self.target_net.state_dict(), self.policy_net.state_dict()
        for key in policy:
            target[key] = policy[key] * self.args.tau + target[key] * (1 - self.args.tau)
        self.target_net.load_state_dict(target)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--episodes', type=int, default=8)
    parser.add_argument('--batch-size', type=int, default=16)
    parser.add_argument('--gamma', type=float, default=0.95)
    parser.add_argument('--tau', type=float, default=0.05)
    parser.add_argument('--lr', type=float, default=1e-3)
    args = parser.parse_args()
    random.seed(7); torch.manual_seed(7)
    env, trainer = GridWorld(), Trainer(args)
    losses = []
    for i_episode in range(args.episodes):
        state = env.reset()
        for t in count():
            action = trainer.select_action(state)
            observation, reward, done = env.step(action.item())
            next_state = None if done else observation
            trainer.memory.push(state, action, next_state, torch.tensor([reward], device=device))
            state = next_state
            loss = trainer.optimize_model()
            if loss is not None:
                losses.append(loss)
                trainer.soft_update()
            if done or t == 29:
                break
    print('Complete: %d updates' % (len(losses) >= 30))
    print('first loss %.5f, last loss %.5f' % (losses[0], losses[-1]))


if __name__ == '__main__':
    main()
