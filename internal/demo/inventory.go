package demo

import "time"

const inventoryInstructions = "Products, stock, orders and prices of a small outdoor shop with three warehouses. " +
	"Products are named by article number (sku), such as BIK-001. Prices are euro cents."

const skuPattern = "^[A-Z]{3}-[0-9]{3}$"

// newInventory builds the inventory server; every session sees the same shop.
func newInventory(now func() time.Time) *server {
	server := newServer("inventory", "Inventory", inventoryInstructions)
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

func addProductTools(server *server, s *shop) {
	add(server, tool{
		"list_products", "List products", reads(),
		"List or search the products of the shop with price and units in stock, by category or by words in the name.",
	}, func(in listProductsArgs) (resultRows[item], error) {
		return resultRows[item]{s.list(in.Category, in.Text, in.InStock, orDefault(in.Limit, 50))}, nil
	}, oneOf("category", categories()...), length("text", 0, 100), between("limit", 1, 100))
	add(server, tool{
		"get_product", "Get a product", reads(),
		"Get name, category, description, price, weight and total stock of one product by its article number.",
	}, func(in skuArgs) (item, error) {
		return s.product(in.SKU)
	}, matching("sku", skuPattern))
	add(server, tool{
		"get_price_history", "Get the price history", reads(),
		"Get the price of one product for each of the last days, oldest first.",
	}, func(in priceHistoryArgs) (resultRows[pricePoint], error) {
		points, err := s.history(in.SKU, orDefault(in.Days, 30))
		return resultRows[pricePoint]{points}, err
	}, matching("sku", skuPattern), between("days", 1, priceDays))
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

func addStockTools(server *server, s *shop) {
	add(server, tool{
		"check_stock", "Check stock", reads(),
		"Tell how many units of a product each warehouse has.",
	}, func(in stockArgs) (resultRows[stockLevel], error) {
		levels, err := s.levels(in.SKU, in.Warehouse)
		return resultRows[stockLevel]{levels}, err
	}, matching("sku", skuPattern), oneOf("warehouse", warehouses()...))
	// Not idempotent: the same change twice counts twice.
	counted := destroys()
	counted.Idempotent = false
	add(server, tool{
		"adjust_stock", "Adjust stock", counted,
		"Add units of a product to a warehouse, or take them away, after a delivery, a loss or a count. Stock never goes below zero.",
	}, func(in adjustStockArgs) (stockLevel, error) {
		return s.adjust(in.SKU, in.Warehouse, in.Change)
	}, matching("sku", skuPattern), oneOf("warehouse", warehouses()...),
		between("change", -maxQuantity, maxQuantity), oneOf("reason", "delivery", "return", "damage", "count"))
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

func addOrderTools(server *server, s *shop) {
	add(server, tool{
		"create_order", "Create an order", adds(),
		"Order products for a customer from one warehouse. All lines are reserved together or, if one is not in stock, none.",
	}, func(in createOrderArgs) (order, error) {
		return s.place(in.Customer, in.Warehouse, in.Lines)
	}, length("customer", 1, 100), oneOf("warehouse", warehouses()...),
		length("lines", 1, maxOrderLines), matching("lines[].sku", skuPattern), between("lines[].quantity", 1, maxQuantity))
	add(server, tool{
		"get_order", "Get an order", reads(),
		"Get the state, lines and total of one order by its id.",
	}, func(in orderIDArgs) (order, error) {
		return s.order(in.ID)
	}, length("id", 1, 32))
	add(server, tool{
		"list_orders", "List orders", reads(),
		"List orders, newest first, by state or by customer.",
	}, func(in listOrdersArgs) (resultRows[order], error) {
		return resultRows[order]{s.listOrders(orderStatus(in.Status), in.Customer, orDefault(in.Limit, 50))}, nil
	}, oneOf("status", orderStatuses()...), length("customer", 0, 100), between("limit", 1, 200))
	add(server, tool{
		"ship_order", "Ship an order", destroys(),
		"Mark an open order as shipped. A shipped order cannot be cancelled.",
	}, func(in orderIDArgs) (order, error) {
		return s.ship(in.ID)
	}, length("id", 1, 32))
	add(server, tool{
		"cancel_order", "Cancel an order", destroys(),
		"Cancel an open order and put its units back in stock. This cannot be undone.",
	}, func(in orderIDArgs) (order, error) {
		return s.cancel(in.ID)
	}, length("id", 1, 32))
}
