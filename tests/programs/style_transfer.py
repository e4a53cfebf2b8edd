"""Style transfer with fixed random convolution features (after Gatys et al.)."""
from __future__ import print_function

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(4)


def content_picture(size=16):
    y, x = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing='ij')
    disc = ((x ** 2 + y ** 2) < 0.5).float()
    return torch.stack([disc, 1 - disc, 0.5 * torch.ones_like(disc)]).unsqueeze(0).to(device)


def style_picture(size=16):
    stripes = torch.sin(torch.arange(size) * (2 * math.pi / 4)).repeat(size, 1)
    return (0.5 + 0.4 * torch.stack([stripes, stripes.t(), -stripes])).unsqueeze(0).to(device)


class ContentLoss(nn.Module):
    def __init__(self, target,):
        super(ContentLoss, self).__init__()
        self.target = target.detach()

    def forward(self, input):
        self.loss = F.mse_loss(input, self.target)
        return input


def gram_matrix(input):
    a, b, c, d = input.size()
    features = input.view(a * b, c * d)
    G = torch.mm(features, features.t())
    return G.div(a * b * c * d)


class StyleLoss(nn.Module):
    def __init__(self, target_feature):
        super(StyleLoss, self).__init__()
        self.target = gram_matrix(target_feature).detach()

    def forward(self, input):
        G = gram_matrix(input)
        self.loss = F.mse_loss(G, self.target)
        return input


class Normalization(nn.Module):
    def __init__(self, mean, std):
        super(Normalization, self).__init__()
        self.mean = torch.tensor(mean).view(-1, 1, 1)
        self.std = torch.tensor(std).view(-1, 1, 1)

    def forward(self, img):
        return (img - self.mean) / self.std


cnn = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1), nn.Softplus(),
    nn.Conv2d(8, 8, 3, padding=1), nn.Softplus(), nn.AvgPool2d(2),
    nn.Conv2d(8, 12, 3, padding=1), nn.Softplus()).to(device).eval()


def get_style_model_and_losses(cnn, style_img, content_img,
                               content_layers=('conv_2',), style_layers=('conv_1', 'conv_3')):
    model = nn.Sequential(Normalization([0.5, 0.5, 0.5], [0.25, 0.25, 0.25]))
    content_losses, style_losses = [], []
    i = 0
    for layer in copy.deepcopy(cnn).children():
        if isinstance(layer, nn.Conv2d):
            i += 1
            name = 'conv_{}'.format(i)
        elif isinstance(layer, nn.Softplus):
            name = 'act_{}'.format(i)
        elif isinstance(layer, nn.AvgPool2d):
            name = 'pool_{}'.format(i)
        else:
            raise RuntimeError('Unrecognized layer: {}'.format(layer.__class__.__name__))
        model.add_module(name, layer)
        if name in content_layers:
            content_loss = ContentLoss(model(content_img).detach())
            model.add_module("content_loss_{}".format(i), content_loss)
            content_losses.append(content_loss)
        if name in style_layers:
            style_loss = StyleLoss(model(style_img).detach())
            model.add_module("style_loss_{}".format(i), style_loss)
            style_losses.append(style_loss)
    return model, style_losses, content_losses


def run_style_transfer(cnn, content_img, style_img, input_img, num_steps=30,
                       style_weight=1e4, content_weight=1):
    print('Building the style transfer model..')
    model, style_losses, content_losses = get_style_model_and_losses(cnn, style_img, content_img)
    input_img.requires_grad_(True)
    model.eval()
    model.requires_grad_(False)
    optimizer = optim.LBFGS([input_img], max_iter=10)

    print('Optimizing..')
    run = [0]
    while run[0] <= num_steps:

        def closure():
            with torch.no_grad():
                input_img.clamp_(0, 1)
            optimizer.zero_grad()
            model(input_img)
            style_score = sum(sl.loss for sl in style_losses) * style_weight
            content_score = sum(cl.loss for cl in content_losses) * content_weight
            loss = style_score + content_score
            loss.backward()
            run[0] += 1
            if run[0] % 10 == 0:
                print("run {}:".format(run[0]))
                print('Style Loss : {:4f} Content Loss: {:4f}'.format(
                    style_score.item(), content_score.item()))
            return style_score + content_score

        optimizer.step(closure)

    with torch.no_grad():
        input_img.clamp_(0, 1)
    return input_img


content_img, style_img = content_picture(), style_picture()
assert style_img.size() == content_img.size()
output = run_style_transfer(cnn, content_img, style_img, content_img.clone())
print('picture changed by', '%.3f' % (output - content_img).abs().mean().item())
