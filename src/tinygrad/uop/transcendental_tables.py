"""Numbers for `uop/transcendental.py`, each with the way it was made.

Polynomials are minimax fits of the relative error (Remez exchange, 50 digits), lowest power first;
`(float32, float64)` pairs. `WORDS_OF_TWO_OVER_PI` and the parts of pi are exact truncations.
"""

from __future__ import annotations

# sin(r) == r * P(r*r) on abs(r) <= pi/2; relative error 5.4e-9 and 2.6e-19
SINE_FLOAT32 = (
    0.9999999946805068,
    -0.16666656675802682,
    0.008333024950563771,
    -0.00019807405051274155,
    2.6018723705855496e-06,
)
SINE_FLOAT64 = (
    1.0,
    -0.16666666666666666,
    0.008333333333333165,
    -0.00019841269841201756,
    2.7557319210138644e-06,
    -2.505210679698276e-08,
    1.6058936425042974e-10,
    -7.642916091084862e-13,
    2.7204608319771086e-15,
)

# 2**s on abs(s) <= 0.5; relative error 1.9e-9 and 3.1e-18
EXP2_FLOAT32 = (
    1.0000000005586578,
    0.6931472058867723,
    0.24022646867558017,
    0.05550328451316243,
    0.009618490426182093,
    0.001340006314438506,
    0.0001534568834369424,
)
EXP2_FLOAT64 = (
    1.0,
    0.6931471805599453,
    0.24022650695910158,
    0.055504108664819904,
    0.009618129107588018,
    0.0013333558146792807,
    0.00015403530462926302,
    1.5252733488110392e-05,
    1.3215432876066742e-06,
    1.0178198467663076e-07,
    7.074143827384769e-09,
    4.435262373113669e-10,
)

# ln(2) in two parts; the first has so few bits that its products with exponents are exact
LN2_PARTS_FLOAT32 = (0.693145751953125, 1.4286068203094173e-06)
LN2_PARTS_FLOAT64 = (0.6931471805598903, 5.497923018708371e-14)

# (2*atanh(s)/s - 2) / s**2 as a polynomial in s**2 on abs(s) <= 0.2; relative error 6e-9, 3.5e-19
ATANH_FLOAT32 = (0.6666666627120899, 0.4000031455043558, 0.2853248455861876, 0.23752348791102265)
ATANH_FLOAT64 = (
    0.6666666666666666,
    0.3999999999999991,
    0.285714285714906,
    0.22222222206390888,
    0.1818182020350609,
    0.15384470634560868,
    0.13339401514178892,
    0.11617396577146986,
    0.12423855041876197,
)

# pi cut into parts of 16 (float32) and 26 (float64) bits: a product with an integer that has as many
# bits as a part lacks to the full significand is exact
PI_PARTS_FLOAT32 = (
    float.fromhex("0x1.921ep+1"),
    float.fromhex("0x1.b544p-15"),
    float.fromhex("0x1.0b46p-33"),
    float.fromhex("0x1.1a62633145c07p-53"),
)
PI_PARTS_FLOAT64 = (
    float.fromhex("0x1.921fb5p+1"),
    float.fromhex("0x1.110b46p-25"),
    float.fromhex("0x1.1a6263p-53"),
    float.fromhex("0x1.8a2e03707344ap-80"),
)

# log2(e) as the nearest float32 and the rest
LOG2_E = 1.4426950408889634

# the bits of 2/pi after the binary point
WORDS_OF_TWO_OVER_PI = (
    0xA2F9836E,
    0x4E441529,
    0xFC2757D1,
    0xF534DDC0,
    0xDB629599,
    0x3C439041,
    0xFE5163AB,
    0xDEBBC561,
    0xB7246E3A,
    0x424DD2E0,
    0x06492EEA,
    0x09D1921C,
    0xFE1DEB1C,
    0xB129A73E,
    0xE88235F5,
    0x2EBB4484,
    0xE99C7026,
    0xB45F7E41,
    0x3991D639,
    0x835339F4,
    0x9C845F8B,
    0xBDF9283B,
    0x1FF897FF,
    0xDE05980F,
    0xEF2F118B,
    0x5A0A6D1F,
    0x6D367ECF,
    0x27CB09B7,
    0x4F463F66,
    0x9E5FEA2D,
    0x7527BAC7,
    0xEBE5F17B,
    0x3D0739F7,
    0x8A5292EA,
    0x6BFB5FB1,
    0x1F8D5D08,
    0x56033046,
    0xFC7B6BAB,
)
