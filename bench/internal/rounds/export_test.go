package rounds

// Start is Main without its end.
var Start = start
