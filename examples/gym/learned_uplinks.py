"""Train PPO of stable-baselines3 to schedule uplinks, and compare it with the built-in selections.

Each step decides who of ten devices sends next over a fading channel; the return is minus the mean age of
the devices in slots. The comparison is on seeds that the training has not used.

    pip install 'slotwise[gym]' torch==2.13.0
    pip install --no-deps stable-baselines3
    python examples/gym/learned_uplinks.py [--steps 150000] [--episodes 30]
"""

import argparse
from typing import Any

import gymnasium
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import slotwise.gym as sg

HELD_OUT = 1_000_000  # the first seed of the comparison; the training begins with seeds 0 to 7


def make_env() -> gymnasium.Env[Any, Any]:
    """Make one environment."""
    return gymnasium.make("slotwise/Uplink-v0", reward="age", disable_env_checker=True)


def main() -> None:
    """Train, then compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--steps", type=int, default=150_000)
    parser.add_argument("--episodes", type=int, default=30)
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # networks as small as these are not faster with more
    envs = DummyVecEnv([make_env] * 8)
    envs.seed(0)
    scaled = VecNormalize(envs, norm_obs=False)  # rewards alone: observations are from -1 to 1
    steps = {"n_steps": 256, "batch_size": 512, "n_epochs": 5, "learning_rate": 1e-3, "gamma": 0.98}
    model = PPO("MlpPolicy", scaled, seed=0, ent_coef=0.005, device="cpu", **steps)
    model.learn(arguments.steps)

    def learned(env: gymnasium.Env[Any, Any], observation: Any) -> int:
        del env
        return int(model.predict(observation, deterministic=True)[0])

    seeds = range(HELD_OUT, HELD_OUT + arguments.episodes)
    print(sg.compare(make_env(), {**sg.BASELINES, "PPO": learned}, seeds))


if __name__ == "__main__":
    main()
