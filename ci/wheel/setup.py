# SPDX-License-Identifier: BSD-3-Clause
"""What pyproject.toml can't say: the files are for one machine, and for each Python 3."""
from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel


class ForOneMachine(Distribution):
    def has_ext_modules(self):
        return True


class ForEachPython(bdist_wheel):
    def get_tag(self):
        return ("py3", "none", super().get_tag()[2])


setup(distclass=ForOneMachine, cmdclass={"bdist_wheel": ForEachPython})
