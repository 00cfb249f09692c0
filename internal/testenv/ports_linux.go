package testenv

import (
	"context"
	"fmt"
	"net"
)

// reserve holds an abstract socket named after the port. The kernel frees it
// with the process, however that ends, and no file is left.
func reserve(port int) (net.Listener, error) {
	var c net.ListenConfig
	return c.Listen(context.Background(), "unix", fmt.Sprintf("@fenced-test-port-%d", port))
}
