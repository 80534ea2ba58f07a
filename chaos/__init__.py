"""Local servers, injected faults and the checks of what they left behind. May import every layer; nobody imports it."""
