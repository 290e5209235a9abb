package demo

import (
	"context"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const inventoryInstructions = "Products, stock, orders and prices of a small outdoor shop with three warehouses. " +
	"Products are named by article number (sku), such as BIK-001. Prices are euro cents."

const skuPattern = "^[A-Z]{3}-[0-9]{3}$"

// newInventory builds the inventory server; every session sees the same shop.
func newInventory(now func() time.Time, logger *slog.Logger) *mcp.Server {
	server := mcp.NewServer(
		&mcp.Implementation{Name: "inventory", Title: "Inventory", Version: version},
		&mcp.ServerOptions{Instructions: inventoryInstructions, Logger: logger, Capabilities: &mcp.ServerCapabilities{}},
	)
	s := newShop(now)
	addProductTools(server, s)
	addStockTools(server, s)
	addOrderTools(server, s)
	return server
}

type listProductsArgs struct {
	Category string `json:"category,omitempty" jsonschema:"only products of this category"`
	Text     string `json:"text,omitempty" jsonschema:"only products whose name or description contains this; case does not matter"`
	InStock  bool   `json:"in_stock,omitempty" jsonschema:"true for only products that some warehouse has"`
	Limit    int    `json:"limit,omitempty" jsonschema:"how many products to return at most; 50 if left out"`
}

type skuArgs struct {
	SKU string `json:"sku" jsonschema:"article number, such as BIK-001"`
}

type priceHistoryArgs struct {
	SKU  string `json:"sku" jsonschema:"article number, such as BIK-001"`
	Days int    `json:"days,omitempty" jsonschema:"how many days to go back; 30 if left out"`
}

func addProductTools(server *mcp.Server, s *shop) {
	mcp.AddTool(server, &mcp.Tool{
		Name:        "list_products",
		Title:       "List products",
		Description: "List or search the products of the shop with price and units in stock, by category or by words in the name.",
		Annotations: reads(),
		InputSchema: argumentsOf[listProductsArgs](oneOf("category", categories()...), length("text", 0, 100), between("limit", 1, 100)),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in listProductsArgs) (*mcp.CallToolResult, Rows[item], error) {
		return nil, Rows[item]{s.list(in.Category, in.Text, in.InStock, orDefault(in.Limit, 50))}, nil
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "get_product",
		Title:       "Get a product",
		Description: "Get name, category, description, price, weight and total stock of one product by its article number.",
		Annotations: reads(),
		InputSchema: argumentsOf[skuArgs](matching("sku", skuPattern)),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in skuArgs) (*mcp.CallToolResult, item, error) {
		found, err := s.product(in.SKU)
		return nil, found, err
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "get_price_history",
		Title:       "Get the price history",
		Description: "Get the price of one product for each of the last days, oldest first.",
		Annotations: reads(),
		InputSchema: argumentsOf[priceHistoryArgs](matching("sku", skuPattern), between("days", 1, priceDays)),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in priceHistoryArgs) (*mcp.CallToolResult, Rows[pricePoint], error) {
		points, err := s.history(in.SKU, orDefault(in.Days, 30))
		return nil, Rows[pricePoint]{points}, err
	})
}

type stockArgs struct {
	SKU       string `json:"sku" jsonschema:"article number, such as BIK-001"`
	Warehouse string `json:"warehouse,omitempty" jsonschema:"only this warehouse; each one if left out"`
}

type adjustStockArgs struct {
	SKU       string `json:"sku" jsonschema:"article number, such as BIK-001"`
	Warehouse string `json:"warehouse" jsonschema:"warehouse whose stock changes"`
	Change    int    `json:"change" jsonschema:"units to add; negative to take units away"`
	Reason    string `json:"reason" jsonschema:"why the stock changes"`
}

func addStockTools(server *mcp.Server, s *shop) {
	mcp.AddTool(server, &mcp.Tool{
		Name:        "check_stock",
		Title:       "Check stock",
		Description: "Tell how many units of a product each warehouse has.",
		Annotations: reads(),
		InputSchema: argumentsOf[stockArgs](matching("sku", skuPattern), oneOf("warehouse", warehouses()...)),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in stockArgs) (*mcp.CallToolResult, Rows[stockLevel], error) {
		levels, err := s.levels(in.SKU, in.Warehouse)
		return nil, Rows[stockLevel]{levels}, err
	})
	// Not idempotent: the same change twice counts twice.
	counted := destroys()
	counted.IdempotentHint = false
	mcp.AddTool(server, &mcp.Tool{
		Name:        "adjust_stock",
		Title:       "Adjust stock",
		Description: "Add units of a product to a warehouse, or take them away, after a delivery, a loss or a count. Stock never goes below zero.",
		Annotations: counted,
		InputSchema: argumentsOf[adjustStockArgs](matching("sku", skuPattern), oneOf("warehouse", warehouses()...),
			between("change", -maxQuantity, maxQuantity), oneOf("reason", "delivery", "return", "damage", "count")),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in adjustStockArgs) (*mcp.CallToolResult, stockLevel, error) {
		level, err := s.adjust(in.SKU, in.Warehouse, in.Change)
		return nil, level, err
	})
}

type createOrderArgs struct {
	Customer  string      `json:"customer" jsonschema:"name of the customer"`
	Warehouse string      `json:"warehouse" jsonschema:"warehouse that sends the order"`
	Lines     []orderLine `json:"lines" jsonschema:"what is ordered, one line a product"`
}

type orderIDArgs struct {
	ID string `json:"id" jsonschema:"identifier of the order as create_order and list_orders return it, such as o1"`
}

type listOrdersArgs struct {
	Status   string `json:"status,omitempty" jsonschema:"only orders in this state"`
	Customer string `json:"customer,omitempty" jsonschema:"only orders of this customer; case does not matter"`
	Limit    int    `json:"limit,omitempty" jsonschema:"how many orders to return at most; 50 if left out"`
}

func addOrderTools(server *mcp.Server, s *shop) {
	mcp.AddTool(server, &mcp.Tool{
		Name:        "create_order",
		Title:       "Create an order",
		Description: "Order products for a customer from one warehouse. All lines are reserved together or, if one is not in stock, none.",
		Annotations: adds(),
		InputSchema: argumentsOf[createOrderArgs](length("customer", 1, 100), oneOf("warehouse", warehouses()...),
			length("lines", 1, maxOrderLines), matching("lines[].sku", skuPattern), between("lines[].quantity", 1, maxQuantity)),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in createOrderArgs) (*mcp.CallToolResult, order, error) {
		placed, err := s.place(in.Customer, in.Warehouse, in.Lines)
		return nil, placed, err
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "get_order",
		Title:       "Get an order",
		Description: "Get the state, lines and total of one order by its id.",
		Annotations: reads(),
		InputSchema: argumentsOf[orderIDArgs](length("id", 1, 32)),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in orderIDArgs) (*mcp.CallToolResult, order, error) {
		found, err := s.order(in.ID)
		return nil, found, err
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "list_orders",
		Title:       "List orders",
		Description: "List orders, newest first, by state or by customer.",
		Annotations: reads(),
		InputSchema: argumentsOf[listOrdersArgs](oneOf("status", orderStatuses()...), length("customer", 0, 100), between("limit", 1, 200)),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in listOrdersArgs) (*mcp.CallToolResult, Rows[order], error) {
		return nil, Rows[order]{s.listOrders(orderStatus(in.Status), in.Customer, orDefault(in.Limit, 50))}, nil
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "ship_order",
		Title:       "Ship an order",
		Description: "Mark an open order as shipped. A shipped order cannot be cancelled.",
		Annotations: destroys(),
		InputSchema: argumentsOf[orderIDArgs](length("id", 1, 32)),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in orderIDArgs) (*mcp.CallToolResult, order, error) {
		shipped, err := s.ship(in.ID)
		return nil, shipped, err
	})
	mcp.AddTool(server, &mcp.Tool{
		Name:        "cancel_order",
		Title:       "Cancel an order",
		Description: "Cancel an open order and put its units back in stock. This cannot be undone.",
		Annotations: destroys(),
		InputSchema: argumentsOf[orderIDArgs](length("id", 1, 32)),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in orderIDArgs) (*mcp.CallToolResult, order, error) {
		cancelled, err := s.cancel(in.ID)
		return nil, cancelled, err
	})
}
