Feature: A bonus in DynamoDB is credited if and only if the purchase is kept
  The purchase is a row in PostgreSQL, and the bonus is on an account in
  DynamoDB, where every credit would be counted.

  Background:
    Given an account of Anna with 100 euros and an account of Ben with 0 euros

  Scenario: A purchase that is kept
    When Ben makes a purchase with a bonus of 5 euros
    Then Ben is credited 5 euros in the end

  Scenario: A purchase that comes to nothing
    When Ben makes a purchase with a bonus of 5 euros and changes his mind
    And Ben makes a purchase with a bonus of 2 euros
    Then Ben is credited 2 euros in the end

  Scenario: The answer to the credit is lost
    Given the answer to the next transfer will be lost
    When Ben makes a purchase with a bonus of 5 euros
    Then Ben is credited 5 euros in the end

  Scenario: A purchase that is made again
    When Ben makes a purchase with a bonus of 5 euros
    And Ben makes the same purchase again
    Then Ben is credited 5 euros in the end

  Scenario: The server is killed before the credit is written
    Given the next transfer is held up
    When Ben makes a purchase with a bonus of 5 euros
    And the server is killed
    And the server is back
    Then Ben is credited 5 euros in the end
