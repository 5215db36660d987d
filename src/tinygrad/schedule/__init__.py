"""From a graph of tensors to a graph of kernels.

`rangeify.get_rangeify_map` is the way in; `engine.schedule` orders what it returns. Modules in the
order in which they work: `cleanup` (tensor rules), `multi` (sharding), `demand` (which element of
every node its readers ask for, and what is stored), `build` (values over loop ranges), `collapse`
(reductions with a closed form), `kernels` (one KERNEL for each stored value).
"""
