"""Particles as Nenwin's logbook has them: initial values are learnt, working values computed from these."""

from __future__ import annotations

from adcompiler import Parameter


class Particle:
    """Position, velocity and acceleration: initial values are Parameters, working values are their clones."""

    def __init__(self, pos, vel, acc, mass=1.0):
        self.init_pos = Parameter(pos, name="init_pos")
        self.init_vel = Parameter(vel, name="init_vel")
        self.init_acc = Parameter(acc, name="init_acc")
        self.__mass = Parameter(mass, name="mass")
        self.reset()

    @property
    def mass(self):
        return self.__mass.clone()

    def reset(self):
        self.pos, self.vel, self.acc = self.init_pos.clone(), self.init_vel.clone(), self.init_acc.clone()
        self.prev_acc = self.init_acc.clone()

    def update_movement(self, time):
        """Beeman's step with an acceleration that stays."""
        self.pos = self.pos + self.vel * time + (4.0 * self.acc - self.prev_acc) * (time**2 / 6.0)
        self.vel = self.vel + self.acc * time
        self.prev_acc = self.acc


def particle():
    return Particle([0.0, 1.0], [1.0, 0.0], [0.0, 0.5])
