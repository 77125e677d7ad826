//! A whole workplace, as PID 1 starts it: its own ports, its own places, a hub at the link door, and
//! where there is one the real agent with a scripted model. Needs root.

mod agent;
mod ends;
mod hostile;
mod told;
mod world;
