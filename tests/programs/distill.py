"""Knowledge distillation (Hinton et al., 2015): a small network learns from a frozen large one,
with an exponential moving average of its weights and a checkpoint half way."""
import argparse
import copy
import io
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.BatchNorm1d(b), nn.SiLU()]
    return nn.Sequential(*layers[:-2])


class DistillLoss(nn.Module):
    def __init__(self, T=4.0, alpha=0.7):
        super().__init__()
        self.T, self.alpha = T, alpha
        self.kl = nn.KLDivLoss(reduction='batchmean')
        self.ce = nn.CrossEntropyLoss()

    def forward(self, student_logits, teacher_logits, labels):
        soft = self.kl(F.log_softmax(student_logits / self.T, dim=1),
                       F.softmax(teacher_logits / self.T, dim=1)) * (self.T ** 2)
        return self.alpha * soft + (1. - self.alpha) * self.ce(student_logits, labels)


def blobs(n, centres):
    labels = torch.randint(0, centres.size(0), (n,))
    return centres[labels] + 0.6 * torch.randn(n, centres.size(1)), labels


def train_teacher(teacher, centres, steps):
    opt = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for _ in range(steps):
        x, y = blobs(64, centres)
        loss = F.cross_entropy(teacher(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def train_step(student, teacher, criterion, optimizer, x, y):
    student.train()
    with torch.no_grad():
        teacher_logits = teacher(x)
    loss = criterion(student(x), teacher_logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def accuracy(model, x, y):
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).double().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--teacher-steps', type=int, default=20)
    parser.add_argument('--steps', type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(0)
    centres = torch.randn(5, 6) * 1.5
    teacher, student = mlp([6, 48, 48, 5]), mlp([6, 12, 5])
    print('teacher loss %.4f' % train_teacher(teacher, centres, args.teacher_steps))
    teacher.eval()
    for p in teacher.parameters():
        p.requires_grad = False

    criterion = DistillLoss()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=args.steps)
    ema = AveragedModel(student, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'checkpoint.pth')
        for step in range(args.steps):
            loss = train_step(student, teacher, criterion, optimizer, *blobs(32, centres))
            scheduler.step()
            ema.update_parameters(student)
            if step == args.steps // 2:
                torch.save({'step': step, 'state_dict': student.state_dict(),
                            'optimizer': optimizer.state_dict()}, path)
                checkpoint = torch.load(path, map_location='cpu')
                student.load_state_dict(checkpoint['state_dict'])
                optimizer.load_state_dict(checkpoint['optimizer'])
                print('resumed at step', checkpoint['step'])
            if step % 10 == 9:
                print('step %d loss %.4f lr %.4f' % (step + 1, loss, scheduler.get_last_lr()[0]))

    buffer = io.BytesIO()
    torch.save(student.state_dict(), buffer)
    buffer.seek(0)
    clone = copy.deepcopy(student)
    clone.load_state_dict(torch.load(buffer, weights_only=True))
    x, y = blobs(200, centres)
    print('same after loading:', torch.equal(clone.eval()(x), student.eval()(x)))
    print('student %.3f ema %.3f teacher %.3f' % (
        accuracy(student, x, y), accuracy(ema.module, x, y), accuracy(teacher, x, y)))


if __name__ == '__main__':
    main()
