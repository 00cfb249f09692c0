package migrate

// UpFiles is Up with other migrations.
var UpFiles = up
